#include "plugins/kubernetes/scale.h"

#include <fmt/format.h>

#include <algorithm>

namespace plugins::kubernetes {
namespace {

struct Resource {
  std::string_view name;
  std::string_view group;
  std::string_view plural;
};

constexpr Resource kResources[] = {
    {"deployment", "apps/v1", "deployments"},
    {"statefulset", "apps/v1", "statefulsets"},
    {"leaderworkerset", "leaderworkerset.x-k8s.io/v1", "leaderworkersets"},
};

const Resource& Of(Scalable kind) {
  return kResources[static_cast<size_t>(kind)];
}

// Absent: 0, as the API server leaves it out.
uint32_t ReplicasIn(const nlohmann::json& object, const char* part) {
  const auto of = object.find(part);
  if (of == object.end() || !of->is_object()) return 0;
  const auto number = of->find("replicas");
  if (number == of->end() || !number->is_number_integer()) return 0;
  return static_cast<uint32_t>(std::clamp<int64_t>(number->get<int64_t>(), 0, INT32_MAX));
}

}  // namespace

std::string_view Name(Scalable kind) {
  return Of(kind).name;
}

std::string ScalePath(Scalable kind, std::string_view name_space, std::string_view name) {
  const Resource& of = Of(kind);
  return fmt::format("/apis/{}/namespaces/{}/{}/{}/scale", of.group, name_space, of.plural, name);
}

absl::StatusOr<Scale> ParseScale(const nlohmann::json& object) {
  const auto kind = object.is_object() ? object.find("kind") : object.end();
  if (!object.is_object() || kind == object.end() || *kind != "Scale")
    return absl::UnavailableError("the API server has answered with something that is not a Scale");
  Scale out{.wanted = ReplicasIn(object, "spec"), .there = ReplicasIn(object, "status"), .version = {}};
  if (const auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object()) {
    const auto version = metadata->find("resourceVersion");
    if (version != metadata->end() && version->is_string()) out.version = version->get<std::string>();
  }
  return out;
}

nlohmann::json ScaleTo(uint32_t wanted, std::string_view version) {
  nlohmann::json change = {{"spec", {{"replicas", wanted}}}};
  if (!version.empty()) change["metadata"]["resourceVersion"] = std::string(version);
  return change;
}

std::string PodPath(std::string_view name_space, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", name_space, name);
}

nlohmann::json DeletionCost(uint32_t cost) {
  return {{"metadata",
           {{"annotations", {{"controller.kubernetes.io/pod-deletion-cost", std::to_string(cost)}}}}}};
}

}  // namespace plugins::kubernetes
