#include "gateway/config/scale_target.h"

#include <fmt/format.h>

#include <utility>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/types.h"
#include "scheduler/engine/presets.h"

namespace gateway::config {
namespace {

using plugins::kubernetes::Scalable;

constexpr std::pair<std::string_view, Scalable> kKinds[] = {
    {"deployment", Scalable::kDeployment},
    {"statefulset", Scalable::kStatefulSet},
    {"leaderworkerset", Scalable::kLeaderWorkerSet},
};

// A name that is part of a path.
struct ObjectName {
  std::string operator()(const std::string& name) const {
    constexpr size_t kLongest = 253;
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    const bool fits = !name.empty() && name.size() <= kLongest && letter(name.front()) &&
                      letter(name.back()) &&
                      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos;
    return fits ? "" : "must be the name of an object of Kubernetes: lower-case letters, digits, '-' and '.'";
  }
};

struct ScalePreset {
  std::string operator()(const std::string& name) const {
    if (scheduler::engine::FindPreset(name)) return "";
    return fmt::format("unknown preset \"{}\"{}", name,
                       conf::DidYouMean(name, scheduler::engine::PresetNames()));
  }
};

}  // namespace

void Bind(conf::Object& o, ScaleTarget& target) {
  size_t given = 0;
  for (const auto& [word, kind] : kKinds) {
    if (!o.reading()) {
      if (target.kind == kind) o.Optional(word, target.name);
      continue;
    }
    std::string name;
    o.Optional(word, name, ObjectName());
    if (!o.Has(word)) continue;
    ++given;
    target.kind = kind;
    target.name = std::move(name);
  }
  o.Optional("namespace", target.name_space, ObjectName());
  o.Optional("hold", target.hold, UpToADay());
  o.Optional("preset", target.preset, ScalePreset());
  if (o.reading() && given != 1) o.Error("give one of deployment, statefulset and leaderworkerset");
}

}  // namespace gateway::config
