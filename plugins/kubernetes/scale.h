// The scale subresource of a Deployment, a StatefulSet or a LeaderWorkerSet: its path, its object, and a change. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plugins::kubernetes {

enum class Scalable : uint8_t { kDeployment, kStatefulSet, kLeaderWorkerSet };
std::string_view Name(Scalable kind);  // "deployment", …

std::string ScalePath(Scalable kind, std::string_view name_space, std::string_view name);

struct Scale {
  uint32_t wanted = 0;  // spec.replicas
  uint32_t there = 0;   // status.replicas
  std::string version;  // of the object
};
// Unavailable: it is no Scale.
absl::StatusOr<Scale> ParseScale(const nlohmann::json& object);

// A merge patch that the server refuses (409) where the object is no longer of that version.
nlohmann::json ScaleTo(uint32_t wanted, std::string_view version);

// Pods of a ReplicaSet with lower costs are deleted first.
std::string PodPath(std::string_view name_space, std::string_view name);
nlohmann::json DeletionCost(uint32_t cost);

}  // namespace plugins::kubernetes
