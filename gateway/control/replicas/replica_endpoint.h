// The endpoint of a replica that Tidegate runs: where it listens, and with which key it is asked. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gateway/config/model.h"
#include "gateway/config/model_policy.h"
#include "gateway/control/launching/replica_keys.h"
#include "gateway/control/models/rollout.h"

namespace gateway::control {

struct ReplicaAddress {
  std::string replica;  // its id
  std::string host;     // of its leader
  uint16_t port = 0;
  bool keyed = false;

  bool operator==(const ReplicaAddress&) const = default;
};

std::shared_ptr<const config::Endpoint> EndpointOf(const ReplicaAddress& address,
                                                   const config::ReplicaTemplate& by,
                                                   const ReplicaKeys& keys);

// The same endpoint as its version's role has it: a new version has a track of its own, one that leaves takes no new
// requests.
std::shared_ptr<const config::Endpoint> InRole(std::shared_ptr<const config::Endpoint> endpoint,
                                               VersionRole role, std::string_view version);

}  // namespace gateway::control
