// EndpointSlices of a Service, as the API server has them (discovery.k8s.io/v1 and v1beta1), and the addresses that
// take new requests among them. Pure.
//
// An endpoint takes new requests while it is ready and not terminating; one that terminates finishes what it has.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gateway/discovery/targets.h"

namespace gateway::discovery {

struct SlicePort {
  std::string name;
  uint16_t number = 0;  // 0: any
};

struct SliceEndpoint {
  std::string address;
  std::string pod;  // NAMESPACE/NAME; empty: not a pod
  std::string zone;
  bool ready = true;
  bool terminating = false;
};

struct EndpointSlice {
  bool ipv6 = false;
  std::vector<SlicePort> ports;
  std::vector<SliceEndpoint> endpoints;
};

// An object of either version. InvalidArgument: it is none, or of an address type that has no addresses.
absl::StatusOr<EndpointSlice> ParseEndpointSlice(const nlohmann::json& object);

// What serves by all slices of one Service, by name. A pod with addresses of both families counts once, by IPv4; an
// endpoint that is in two slices, once. `trouble`: why nothing of a slice can be used, in words; empty: nothing is
// wrong.
struct ServiceTargets {
  Targets targets;
  uint32_t not_ready = 0;
  uint32_t terminating = 0;
  std::string trouble;
};
ServiceTargets TargetsOf(const std::map<std::string, EndpointSlice>& slices,
                         const config::Discovery& discovery);

}  // namespace gateway::discovery
