// The Kubernetes objects of a run: a pod, a Secret with its environment and, for the members of a gang, a
// headless Service. Pure.
//
// A run with weights has an init container that fetches them into the node's store, and a sidecar that holds
// them there while the run lives (Kubernetes 1.29). What the source wants to know of its callers is in a Secret
// of the init container's own.
//
// The environment is in a Secret, not in the pod, because more people may read pods than Secrets. The pod
// owns the Secret, so that none is left behind. The Secret is created after the pod; until then the pod waits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers::kubernetes {

enum class Binding : uint8_t {
  kAffinity,  // Kubernetes' scheduler binds the pod, to the planned node only
  kDirect,    // the pod names its node: without the scheduler
};

// The description of a run that its pod carries.
struct Mark {
  std::string id{};
  std::string owner{};
  std::string tenant{};
  uint16_t port = 0;  // 0: it does not serve
  DeviceGrant grant{};
};
std::string Render(const Mark& mark);
std::optional<Mark> ReadMark(std::string_view text);

struct Submission {
  RunSpec run{};
  std::string gateway{};
  std::string name_space{};
  Binding bind = Binding::kAffinity;
  uint16_t port = 0;
  std::string node_address{};  // where a pod in the node's network listens
  std::string resource{};      // of its devices; empty: it has none
  uint32_t count = 0;
  std::string pull_policy{};
  std::vector<std::string> pull_secrets{};
  nlohmann::json defaults = nlohmann::json::object();  // a piece of every pod, before the run's own
  bool safe_tenants = true;  // a tenant's piece may have only what UnsafePiece() allows
};

nlohmann::json RenderPod(const Submission& submission);
// `uid`: of the pod, which owns it. An empty object: the run has no environment.
nlohmann::json RenderSecret(const Submission& submission, const std::string& uid);
// The Secret for the order of the run's weights; an empty object: it has none.
nlohmann::json RenderWeightsSecret(const Submission& submission, const std::string& uid);
// The Service of a gang's leader, by which the members find each other.
nlohmann::json RenderService(const Submission& submission, const std::string& uid);

// The name that DNS gives to the run of that id in a gang that it leads.
std::string GangAddress(const std::string& id, const std::string& name_space);
// The name of the gang's Service, of that address; empty: the run's leader is found in another way.
std::string ServiceOf(std::string_view leader);

// Whether the pod is in its node's network.
bool UsesHostNetwork(const nlohmann::json& defaults, const nlohmann::json& piece);

// Why such a run can never be started; empty: it can.
std::string FirstDefect(const Submission& submission);

// A problem of a piece of PodSpec, as {pointer, sentence}: the piece has a field that Tidegate itself sets.
struct PieceProblem {
  std::string pointer{};
  std::string why{};
};
std::optional<PieceProblem> WrongPiece(const nlohmann::json& piece);
// A problem of a tenant's piece: a field that is not known to keep the tenant isolated from others.
std::optional<PieceProblem> UnsafePiece(const nlohmann::json& piece);

// Merges `piece` over `base`: objects member by member, lists of objects by the fields by which Kubernetes distinguishes
// their members (`name`, `mountPath` of volumeMounts, `containerPort` and `protocol` of ports), other values as a whole.
void Merge(nlohmann::json& base, const nlohmann::json& piece);

}  // namespace plugins::launchers::kubernetes
