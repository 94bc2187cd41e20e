// Queues as an operator writes them: a tree that shares the cluster's devices.
//
// Plain values. Devices are counted per kind, in milli; the kind "*" means all kinds together. A queue deserves nothing
// of a kind that it does not name, and has no limit for it; it inherits neither.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace scheduler {

using DeviceQuota = std::map<std::string, int64_t>;  // device kind or "*" → milli

struct Queue {
  std::string name;
  std::string parent;            // empty: the root
  DeviceQuota deserved{};        // its own, when it asks for it
  DeviceQuota limit{};           // never above this
  double over_quota_weight = 1;  // of what other queues leave
  bool borrows = true;           // may go over deserved
  std::optional<DeviceQuota>
      lends{};               // of deserved, at most this while it does not ask for it itself; absent: all
  DeviceQuota user_limit{};  // for each user in it
};

}  // namespace scheduler
