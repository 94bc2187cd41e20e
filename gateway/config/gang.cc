#include "gateway/config/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/reader.h"
#include "gateway/config/types.h"
#include "scheduler/io/bounds.h"

namespace gateway::config {

void Bind(conf::Object& o, Nearness& nearness) {
  scheduler::Topology& topology = *nearness.topology;
  o.Required("level", topology.level, ValidName());
  o.Optional("required", topology.required);
  o.Optional("wait", topology.wait, AnyLength());
  if (topology.required && o.Has("wait")) o.Error("has no effect where the level is required", "wait");
}

std::vector<std::string_view> LevelsOf(const scheduler::Cluster& cluster) {
  std::vector<std::string_view> levels = {"node"};
  levels.insert(levels.end(), cluster.fabric.levels.begin(), cluster.fabric.levels.end());
  return levels;
}

bool IsGangVariable(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK",
                                                             "MASTER_ADDR", "MASTER_PORT"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::string AnyLength::operator()(conf::Duration length) const {
  return conf::Duration::zero() < length && length <= scheduler::io::kLongest
             ? ""
             : fmt::format("must be longer than 0, at most {}", scheduler::io::kLongestInWords);
}

}  // namespace gateway::config
