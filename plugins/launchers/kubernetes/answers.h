// Pods and nodes of Kubernetes' API as plain values, with what a launcher needs of them. Pure.
//
// Members that are missing, null or of another type are as if absent: what an API server of another version
// leaves out does not stop the launcher. NoName: an object without a name is none.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "scheduler/model.h"

namespace plugins::launchers::kubernetes {

// On each pod that is a run.
inline constexpr std::string_view kGatewayLabel = "tidegate.io/gateway";
inline constexpr std::string_view kGangLabel = "tidegate.io/gang";
inline constexpr std::string_view kEpochLabel = "tidegate.io/epoch";
inline constexpr std::string_view kWorkloadLabel = "tidegate.io/workload";
inline constexpr std::string_view kTenantLabel = "tidegate.io/tenant";
inline constexpr std::string_view kRunAnnotation = "tidegate.io/run";  // a JSON object: Mark
inline constexpr std::string_view kContainer = "run";
inline constexpr std::string_view kWeightsContainer = "tidegate-weights";      // before it
inline constexpr std::string_view kWeightsHolder = "tidegate-weights-holder";  // beside it

struct Pod {
  std::string name{};
  std::string uid{};
  uint64_t version = 0;   // greater with each change; 0: not known
  std::string gateway{};  // the value of its label; empty: it is no run
  std::string mark{};     // the text of its annotation
  std::string node{};     // empty: not bound
  std::string phase{};
  std::string reason{};  // of the pod itself: "Evicted", "OutOfnvidia.com/gpu"
  std::string message{};
  bool deleting = false;
  std::string disrupted{};  // the reason of the condition DisruptionTarget
  conf::TimePoint created{};
  std::string unscheduled{};  // the scheduler's reason
  std::string ip{};
  std::string host_ip{};
  bool host_network = false;

  // Of the container `run`.
  std::string waiting{};  // a reason, while it has no process
  std::string waiting_message{};
  bool running = false;
  bool terminated = false;
  std::string terminated_reason{};
  std::string terminated_message{};
  std::optional<conf::TimePoint> started{};
  std::optional<conf::TimePoint> finished{};
  std::optional<int> exit_code{};

  bool fetches_weights = false;   // it has an init container for weights
  std::string weights_failure{};  // how its init container for weights ended, if not well

  // Its requests for resources whose name has a '/': those of device plugins.
  std::vector<std::pair<std::string, uint32_t>> devices{};
  scheduler::HostAmounts host{};  // CPU and memory, as Kubernetes' scheduler counts them

  bool over() const { return phase == "Succeeded" || phase == "Failed"; }
};

struct Taint {
  std::string key{};
  std::string value{};
  std::string effect{};
  friend bool operator==(const Taint&, const Taint&) = default;
};

struct Node {
  std::string name{};
  std::string address{};  // its InternalIP
  std::map<std::string, std::string> labels{};
  bool unschedulable = false;
  std::vector<Taint> taints{};
  std::string ready = "Unknown";  // the condition: "True", "False", "Unknown"
  std::string ready_reason{};
  std::string ready_message{};
  conf::TimePoint ready_since{};
  std::map<std::string, uint32_t> devices{};  // allocatable, of names with a '/'
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

std::optional<Pod> ReadPod(const nlohmann::json& object);
std::optional<Node> ReadNode(const nlohmann::json& object);

// "64", "2500m", "1.5": in thousandths; "527957588Ki", "4Gi", "1e9": in bytes. Nothing where it is none.
std::optional<int64_t> ReadMilli(std::string_view quantity);
std::optional<int64_t> ReadBytes(std::string_view quantity);

}  // namespace plugins::launchers::kubernetes
