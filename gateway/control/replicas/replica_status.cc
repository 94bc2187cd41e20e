#include "gateway/control/replicas/replica_status.h"

#include <array>

namespace gateway::control {

std::string_view Name(ReplicaState state) {
  static constexpr std::array<std::string_view, kReplicaStates> kNames = {
      "waiting", "launching", "warming", "ready", "draining", "stopping", "asleep", "waking"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace gateway::control
