// What job files and policies both say of gangs: how near their members stand, and which variables of the
// environment are Tidegate's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "scheduler/model.h"
#include "scheduler/work.h"

namespace conf {
class Object;
}

namespace gateway::config {

// `topology: {level: leaf, required: true}` or `{level: leaf, wait: 30m}`.
struct Nearness {
  scheduler::Topology* topology;
};
void Bind(conf::Object& object, Nearness& nearness);

// "node", and the levels of the cluster's fabric from the lowest up.
std::vector<std::string_view> LevelsOf(const scheduler::Cluster& cluster);

// RANK and similar variables, by which a member finds the others.
bool IsGangVariable(std::string_view name);

// Accepts a duration of any length.
struct AnyLength {
  std::string operator()(conf::Duration length) const;
};

}  // namespace gateway::config
