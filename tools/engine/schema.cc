#include "tools/engine/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tools/engine/prose.h"

namespace tidegate_engine {
namespace {

constexpr int kMaxDepth = 32;
constexpr int kDepthOfOptionals = 4;
constexpr size_t kMaxItems = 256;
constexpr size_t kMaxString = 65536;

struct Format {
  std::string_view name;
  std::string_view text;
};
constexpr Format kFormats[] = {
    {"date", "2026-03-14"},
    {"date-time", "2026-03-14T09:26:53Z"},
    {"time", "09:26:53Z"},
    {"duration", "PT90S"},
    {"email", "pilot@example.com"},
    {"hostname", "harbour.example.com"},
    {"ipv4", "192.0.2.7"},
    {"ipv6", "2001:db8::7"},
    {"uri", "https://example.com/tide"},
    {"uri-reference", "/tide"},
    {"uuid", "3d1f8c52-6a0b-4c7e-9f24-5b8e0d7a1c36"},
};

class Maker {
 public:
  Maker(const Json& root, uint64_t seed) : root_(root), draw_(seed) {}

  Json Make(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMaxDepth) return Free(schema);
    if (schema.contains("const")) return schema["const"];
    if (Json* list = Array(schema, "enum")) return (*list)[draw_.Below(list->size())];
    if (schema.contains("$ref")) return Make(Resolve(schema["$ref"]), depth + 1);
    for (const char* key : {"anyOf", "oneOf"}) {
      if (Json* list = Array(schema, key)) return MakeOneOf(schema, key, *list, depth);
    }
    if (Json* list = Array(schema, "allOf")) return Make(Merged(schema, "allOf", *list), depth + 1);
    std::string type = TypeOf(schema, depth);
    if (type == "object") return Object(schema, depth);
    if (type == "array") return List(schema, depth);
    if (type == "string") return String(schema);
    if (type == "integer" || type == "number") return Number(schema, type == "integer");
    if (type == "boolean") return draw_.Below(2) == 1;
    return nullptr;
  }

 private:
  Json Free(const Json& schema) { return schema.is_boolean() ? Json("tide") : Json(nullptr); }

  static Json* Array(const Json& schema, const char* key) {
    auto it = schema.find(key);
    if (it == schema.end() || !it->is_array() || it->empty()) return nullptr;
    return const_cast<Json*>(&*it);
  }

  const Json& Resolve(const Json& reference) {
    static const Json kNothing = Json::object();
    if (!reference.is_string()) return kNothing;
    const auto& text = reference.get_ref<const std::string&>();
    if (text == "#") return root_;
    if (!text.starts_with("#/")) return kNothing;
    try {
      Json::json_pointer pointer(text.substr(1));
      return root_.contains(pointer) ? root_.at(pointer) : kNothing;
    } catch (const Json::exception&) {
      return kNothing;
    }
  }

  // Merges the alternative with the keywords beside it. Deep in the document a type without recursion (null)
  // is preferred.
  Json MakeOneOf(const Json& schema, const char* key, const Json& list, int depth) {
    size_t choice = depth > kDepthOfOptionals ? list.size() - 1 : 0;
    for (size_t i = 0; depth > kDepthOfOptionals && i < list.size(); ++i) {
      if (list[i].is_object() && !list[i].contains("$ref")) choice = i;
    }
    return Make(Merged(schema, key, Json::array({list[choice]})), depth + 1);
  }

  Json Merged(const Json& schema, const char* without, const Json& parts) {
    Json merged = schema;
    merged.erase(without);
    for (const Json& raw : parts) {
      const Json& part = raw.is_object() && raw.contains("$ref") ? Resolve(raw["$ref"]) : raw;
      if (!part.is_object()) continue;
      for (const auto& [key, value] : part.items()) {
        if (key == "properties" && merged.contains(key)) {
          merged[key].update(value);
        } else if (key == "required" && merged.contains(key)) {
          for (const Json& name : value) merged[key].push_back(name);
        } else {
          merged[key] = value;
        }
      }
    }
    return merged;
  }

  std::string TypeOf(const Json& schema, int depth) {
    auto it = schema.find("type");
    if (it != schema.end() && it->is_string()) return it->get<std::string>();
    if (it != schema.end() && it->is_array() && !it->empty()) {
      bool nullable = std::find(it->begin(), it->end(), Json("null")) != it->end();
      if (nullable && depth > kDepthOfOptionals) return "null";
      for (const Json& type : *it) {
        if (type.is_string() && type != "null") return type.get<std::string>();
      }
      return "null";
    }
    if (schema.contains("properties") || schema.contains("required")) return "object";
    if (schema.contains("items") || schema.contains("prefixItems")) return "array";
    if (schema.contains("minimum") || schema.contains("maximum")) return "number";
    return "string";
  }

  Json Object(const Json& schema, int depth) {
    Json object = Json::object();
    std::vector<std::string> required;
    if (Json* list = Array(schema, "required")) {
      for (const Json& name : *list) {
        if (name.is_string()) required.push_back(name.get<std::string>());
      }
    }
    auto properties = schema.find("properties");
    bool known = properties != schema.end() && properties->is_object();
    if (known) {
      for (const auto& [name, property] : properties->items()) {
        bool needed = std::find(required.begin(), required.end(), name) != required.end();
        if (needed || depth < kDepthOfOptionals) object[name] = Make(property, depth + 1);
      }
    }
    auto additional = schema.find("additionalProperties");
    Json others = additional != schema.end() && additional->is_object() ? *additional : Json::object();
    for (const std::string& name : required) {
      if (!object.contains(name)) object[name] = Make(others, depth + 1);
    }
    auto least = static_cast<size_t>(std::clamp(Bound(schema, "minProperties", 0), 0.0, 64.0));
    for (size_t i = 0; object.size() < least; ++i) object[fmt::format("key{}", i)] = Make(others, depth + 1);
    return object;
  }

  Json List(const Json& schema, int depth) {
    Json list = Json::array();
    auto least = static_cast<size_t>(std::clamp(Bound(schema, "minItems", 0), 0.0, double{kMaxItems}));
    double most = Bound(schema, "maxItems", 1e9);
    size_t count = std::max<size_t>(least, depth < kDepthOfOptionals ? 2 : 0);
    count = static_cast<size_t>(std::min(static_cast<double>(count), most));
    if (Json* prefix = Array(schema, "prefixItems")) {
      for (const Json& item : *prefix) list.push_back(Make(item, depth + 1));
    }
    auto items = schema.find("items");
    Json anything = {{"type", "string"}};
    const Json& item = items == schema.end() || items->is_boolean() ? anything : *items;
    bool unique = schema.value("uniqueItems", Json(false)) == Json(true);
    for (size_t attempt = 0; list.size() < count && attempt < count * 16; ++attempt) {
      Json next = Make(item, depth + 1);
      if (!unique || std::find(list.begin(), list.end(), next) == list.end()) list.push_back(std::move(next));
    }
    return list;
  }

  Json String(const Json& schema) {
    if (auto pattern = schema.find("pattern"); pattern != schema.end() && pattern->is_string()) {
      std::string text;
      if (MakeMatch(pattern->get_ref<const std::string&>(), draw_.Next(), text)) return text;
    }
    if (auto format = schema.find("format"); format != schema.end() && format->is_string()) {
      for (const Format& known : kFormats) {
        if (known.name == format->get_ref<const std::string&>()) return std::string(known.text);
      }
    }
    auto least = static_cast<size_t>(std::clamp(Bound(schema, "minLength", 0), 0.0, double{kMaxString}));
    double most = Bound(schema, "maxLength", 1e9);
    std::string text;
    std::vector<uint32_t> ends;
    AppendProse(draw_.Next(), 1 + static_cast<uint32_t>(draw_.Below(3)), text, ends);
    text.pop_back();
    while (text.size() < least) text += " tide";
    if (static_cast<double>(text.size()) > most) text.resize(static_cast<size_t>(std::max(most, 0.0)));
    return text;
  }

  Json Number(const Json& schema, bool whole) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double step = Bound(schema, "multipleOf", 0);
    double nudge = step > 0 ? step : whole ? 1 : 1e-3;
    double low =
        std::max(Bound(schema, "minimum", -kInfinity), Bound(schema, "exclusiveMinimum", -kInfinity) + nudge);
    double high =
        std::min(Bound(schema, "maximum", kInfinity), Bound(schema, "exclusiveMaximum", kInfinity) - nudge);
    if (low == -kInfinity) low = high == kInfinity ? 0 : high - 100;
    if (high == kInfinity) high = low + 100;
    double grain = step > 0 ? step : whole ? 1 : 0.01;
    double first = std::ceil(low / grain - 1e-9);
    double last = std::floor(high / grain + 1e-9);
    // For a range narrower than the grain, such as 0.001 to 0.002, the answer is the lower bound.
    double value =
        last < first ? low : (first + std::floor(draw_.Unit() * (std::min(last - first, 1e9) + 1))) * grain;
    if (whole) return static_cast<int64_t>(std::llround(std::clamp(value, -9e18, 9e18)));
    if (step <= 0) value = std::clamp(std::round(value * 1e4) / 1e4, low, high);
    return value;
  }

  static double Bound(const Json& schema, const char* key, double otherwise) {
    auto it = schema.find(key);
    return it != schema.end() && it->is_number() ? it->get<double>() : otherwise;
  }

  const Json& root_;
  Draw draw_;
};

}  // namespace

Json MakeInstance(const Json& schema, uint64_t seed) {
  return Maker(schema, seed).Make(schema, 0);
}

}  // namespace tidegate_engine
