// ServedNames: the names of one runtime's ids. Counters are kept by name, so that they outlive a reload; logs
// show names.
//
// Immutable; part of a Runtime.
#pragma once

#include <string>
#include <vector>

namespace gateway {

struct ServedNames {
  std::vector<std::string> models;              // by ModelId
  std::vector<std::vector<std::string>> bands;  // of each model's queue, by ModelId
  std::vector<std::string> replicas;            // by ReplicaId: "model@endpoint"
  std::vector<std::string> endpoints;           // by ReplicaId: "endpoint"
  std::string zone;                             // of this gateway; empty: not configured
};

}  // namespace gateway
