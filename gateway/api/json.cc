#include "gateway/api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "conf/json_text.h"
#include "conf/json_type.h"

namespace gateway::api {
namespace {

template <class T>
bool ReadAs(Json value, const Path& path, Faults& faults, std::string_view wanted, T& into) {
  return value.get(into) == simdjson::SUCCESS || faults.WrongType(path, wanted, value);
}

// The UTF-16 unit of the escape at `at`, such as \ud83d; 0: there is none.
uint32_t EscapedUnit(std::string_view text, size_t at) {
  constexpr std::string_view kBegin = "\\u";
  constexpr size_t kDigits = 4;
  if (text.size() < at + kBegin.size() + kDigits || text.substr(at, kBegin.size()) != kBegin) return 0;
  const char* const digits = text.data() + at + kBegin.size();
  uint32_t unit = 0;
  const auto [end, error] = std::from_chars(digits, digits + kDigits, unit, 16);
  return end == digits + kDigits ? unit : 0;
}

bool IsLeading(uint32_t unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool IsTrailing(uint32_t unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

}  // namespace

std::string Path::Text() const {
  if (parent == nullptr) return {};
  std::string text = parent->Text();
  if (key.empty()) return text + fmt::format("[{}]", index);
  if (!text.empty()) text += '.';
  return text.append(key);
}

bool Faults::Add(Code code, const Path& path, std::string message) {
  if (!first) first = Make(code, std::move(message), path.Text());
  return false;
}

bool Faults::WrongType(const Path& path, std::string_view wanted, Json got) {
  const std::string place = path.Text();
  return Add(Code::kInvalidType, path,
             fmt::format("Invalid type for '{}': expected {}, got {}.", place, wanted, conf::TypeName(got)));
}

bool Faults::Missing(const Path& path) {
  return Add(Code::kMissingParameter, path, fmt::format("Missing required parameter: '{}'.", path.Text()));
}

bool Faults::Unsupported(const Path& path, std::string_view why) {
  return Add(Code::kUnsupportedParameter, path, fmt::format("'{}' {}.", path.Text(), why));
}

bool ParseObject(simdjson::dom::parser& parser, std::string_view text, Faults& faults, JsonObject& root,
                 bool padded) {
  const Path top;
  if (parser.capacity() < text.size() || parser.max_depth() != kMaxNesting) {
    if (parser.allocate(text.size(), kMaxNesting) != simdjson::SUCCESS) {
      return faults.Add(Code::kRequestTooLarge, top, "The JSON document is too large to be parsed.");
    }
  }
  Json document;
  const simdjson::error_code error = parser.parse(text.data(), text.size(), !padded).get(document);
  if (error == simdjson::DEPTH_ERROR) {
    return faults.Add(Code::kNestingTooDeep, top,
                      fmt::format("The JSON document nests deeper than {} levels.", kMaxNesting));
  }
  if (error != simdjson::SUCCESS) {
    return faults.Add(Code::kInvalidJson, top,
                      fmt::format("The body is not valid JSON: {}", simdjson::error_message(error)));
  }
  if (document.get(root) == simdjson::SUCCESS) return true;
  return faults.Add(Code::kInvalidType, top,
                    fmt::format("The body must be a JSON object, not {}.", conf::TypeName(document)));
}

std::string WithoutHalfSurrogates(std::string_view text) {
  constexpr size_t kEscape = 6;  // \uXXXX
  std::string out(text);
  for (size_t at = 0; (at = out.find('\\', at)) != std::string::npos;) {
    const uint32_t unit = EscapedUnit(out, at);
    if (IsLeading(unit) && IsTrailing(EscapedUnit(out, at + kEscape))) {
      at += 2 * kEscape;
      continue;
    }
    if (IsLeading(unit) || IsTrailing(unit)) out.replace(at, kEscape, "\\ufffd");
    at += 2;  // the next character may be a backslash
  }
  return out;
}

bool Read(Json value, const Path& path, Faults& faults, std::string_view& into) {
  return ReadAs(value, path, faults, "a string", into);
}
bool Read(Json value, const Path& path, Faults& faults, bool& into) {
  return ReadAs(value, path, faults, "a boolean", into);
}
bool Read(Json value, const Path& path, Faults& faults, JsonArray& into) {
  return ReadAs(value, path, faults, "an array", into);
}
bool Read(Json value, const Path& path, Faults& faults, JsonObject& into) {
  return ReadAs(value, path, faults, "an object", into);
}

std::string_view StringOr(JsonObject object, std::string_view key, std::string_view otherwise) {
  std::string_view value;
  return object.at_key(key).get(value) == simdjson::SUCCESS ? value : otherwise;
}

std::optional<Json> Find(JsonObject object, std::string_view key) {
  Json value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool Require(JsonObject object, std::string_view key, const Path& path, Faults& faults,
             std::string_view& into) {
  const std::optional<Json> value = Find(object, key);
  return value ? Read(*value, path / key, faults, into) : faults.Missing(path / key);
}

std::string_view DuplicateKey(JsonObject object) {
  std::vector<std::string_view> keys;
  for (const auto field : object) keys.push_back(field.key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() ? std::string_view() : *twice;
}

}  // namespace gateway::api
