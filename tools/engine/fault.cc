#include "tools/engine/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "conf/text.h"

namespace tidegate_engine {
namespace {

struct Kind {
  std::string_view name;
  FaultKind kind;
  uint32_t arg;  // when none is given
};
constexpr Kind kKinds[] = {
    {"refuse", FaultKind::kRefuse, 0},    {"500", FaultKind::k500, 0},
    {"503", FaultKind::k503, 0},          {"429", FaultKind::k429, 1},
    {"hang", FaultKind::kHang, 0},        {"stall", FaultKind::kStall, 3},
    {"drop", FaultKind::kDrop, 3},        {"bad-chunk", FaultKind::kBadChunk, 3},
    {"bad-json", FaultKind::kBadJson, 3}, {"slow-headers", FaultKind::kSlowHeaders, 100},
    {"endless", FaultKind::kEndless, 0},
};

absl::Status Invalid(std::string message) {
  return absl::InvalidArgumentError(message);
}

const Kind* FindKind(std::string_view name) {
  auto it = std::find_if(std::begin(kKinds), std::end(kKinds),
                         [name](const Kind& kind) { return kind.name == name; });
  return it == std::end(kKinds) ? nullptr : it;
}

absl::Status UnknownKind(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return Invalid(fmt::format("unknown fault \"{}\"{}", name, conf::DidYouMean(name, names)));
}

// "0.1", "every:3" or "first:2".
absl::Status ReadCondition(std::string_view text, Fault& fault) {
  for (auto [prefix, field] :
       {std::pair{std::string_view("every:"), &Fault::every}, {"first:", &Fault::first}}) {
    if (!text.starts_with(prefix)) continue;
    auto count = conf::ReadNumber<uint32_t>(text.substr(prefix.size()));
    if (!count || *count == 0)
      return Invalid(fmt::format("fault condition \"@{}\": want a count of at least 1", text));
    fault.*field = *count;
    return absl::OkStatus();
  }
  char* end = nullptr;
  std::string copy(text);
  fault.probability = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || !(fault.probability >= 0 && fault.probability <= 1)) {
    return Invalid(
        fmt::format("fault condition \"@{}\": want a probability of 0 to 1, every:N or first:N", text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Fault> ParseFault(std::string_view text) {
  std::string_view condition;
  bool conditional = false;
  if (size_t at = text.find('@'); at != std::string_view::npos) {
    condition = text.substr(at + 1);
    text = text.substr(0, at);
    conditional = true;
  }
  std::string_view name = text.substr(0, text.find(':'));
  const Kind* kind = FindKind(name);
  if (kind == nullptr) return UnknownKind(name);
  Fault fault{.kind = kind->kind, .arg = kind->arg, .api = {}};
  if (name.size() < text.size()) {
    auto arg = conf::ReadNumber<uint32_t>(text.substr(name.size() + 1));
    if (!arg) return Invalid(fmt::format("fault \"{}\": the argument must be a whole number", text));
    fault.arg = *arg;
  }
  if (conditional) {
    if (absl::Status status = ReadCondition(condition, fault); !status.ok()) return status;
  }
  return fault;
}

absl::StatusOr<Fault> FaultFromJson(const Json& json) {
  if (json.is_string()) return ParseFault(json.get_ref<const std::string&>());
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) {
    return Invalid("a fault is a string as of --fault, or an object with a kind");
  }
  auto fault = ParseFault(json["kind"].get_ref<const std::string&>());
  if (!fault.ok()) return fault;
  for (const auto& [key, value] : json.items()) {
    if (key == "kind") continue;
    if (key == "api") {
      bool known = value.is_string() && ApiByName(value.get_ref<const std::string&>()).has_value();
      if (!known) return Invalid(fmt::format("fault api {}: no such API", value.dump()));
      fault->api = value.get<std::string>();
    } else if (key == "probability" && value.is_number() && value >= 0 && value <= 1) {
      fault->probability = value.get<double>();
    } else if (key == "arg" && value.is_number_unsigned()) {
      fault->arg = value.get<uint32_t>();
    } else if (key == "every" && value.is_number_unsigned()) {
      fault->every = value.get<uint32_t>();
    } else if (key == "first" && value.is_number_unsigned()) {
      fault->first = value.get<uint32_t>();
    } else {
      return Invalid(
          fmt::format("fault field {} cannot be {}: want arg, every, first (whole numbers), probability "
                      "(0 to 1) or api",
                      key, value.dump()));
    }
  }
  return fault;
}

Json ToJson(const Fault& fault) {
  auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.kind == fault.kind; });
  return Json{{"kind", kind->name},   {"arg", fault.arg},
              {"api", fault.api},     {"probability", fault.probability},
              {"every", fault.every}, {"first", fault.first},
              {"seen", fault.seen},   {"fired", fault.fired}};
}

std::optional<Fault> Faults::Pick(Api api) {
  for (Fault& fault : faults_) {
    if (fault.kind == FaultKind::kRefuse) continue;
    if (fault.api.empty() ? !IsModelApi(api) : fault.api != ApiName(api)) continue;
    if (Fires(fault)) return fault;
  }
  return std::nullopt;
}

bool Faults::PickRefusal() {
  return std::any_of(faults_.begin(), faults_.end(),
                     [this](Fault& fault) { return fault.kind == FaultKind::kRefuse && Fires(fault); });
}

bool Faults::Fires(Fault& fault) {
  ++fault.seen;
  bool fires = fault.first > 0   ? fault.seen <= fault.first
               : fault.every > 0 ? fault.seen % fault.every == 0
                                 : draw_.Unit() < fault.probability;
  if (fires) ++fault.fired;
  return fires;
}

}  // namespace tidegate_engine
