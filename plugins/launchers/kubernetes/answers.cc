#include "plugins/launchers/kubernetes/answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "conf/text.h"

namespace plugins::launchers::kubernetes {
namespace {

using nlohmann::json;

const json kNothing = json::object();

const json& ObjectAt(const json& object, std::string_view key) {
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

const json* ListAt(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

std::string TextAt(const json& object, std::string_view key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool FlagAt(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// A time before 1971 means that Kubernetes does not know it.
std::optional<conf::TimePoint> TimeAt(const json& object, std::string_view key) {
  const std::optional<conf::TimePoint> time = conf::ParseTime(TextAt(object, key));
  constexpr conf::Duration kYear = std::chrono::hours(365 * 24);
  return time && time->time_since_epoch() > kYear ? time : std::nullopt;
}

std::optional<double> ReadQuantity(std::string_view text) {
  struct Suffix {
    std::string_view text;
    double factor;
  };
  static constexpr std::array<Suffix, 13> kSuffixes = {{{"Ki", 0x1p10},
                                                        {"Mi", 0x1p20},
                                                        {"Gi", 0x1p30},
                                                        {"Ti", 0x1p40},
                                                        {"Pi", 0x1p50},
                                                        {"m", 1e-3},
                                                        {"k", 1e3},
                                                        {"M", 1e6},
                                                        {"G", 1e9},
                                                        {"T", 1e12},
                                                        {"P", 1e15},
                                                        {"u", 1e-6},
                                                        {"n", 1e-9}}};
  double factor = 1;
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.text)) continue;
    text.remove_suffix(suffix.text.size());
    factor = suffix.factor;
    break;
  }
  const std::optional<double> number = conf::ReadNumber<double>(text);
  if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
  return *number * factor;
}

std::optional<int64_t> Whole(std::optional<double> number) {
  constexpr double kMost = 1e18;
  if (!number || *number > kMost) return std::nullopt;
  return static_cast<int64_t>(std::llround(*number));
}

// The names with a '/' are those of device plugins.
template <class Add>
void EachDevice(const json& resources, const Add& add) {
  for (const auto& [name, value] : resources.items()) {
    if (name.find('/') == std::string::npos) continue;
    const std::optional<int64_t> count = value.is_string()
                                             ? Whole(ReadQuantity(value.get_ref<const std::string&>()))
                                         : value.is_number_integer() ? std::optional(value.get<int64_t>())
                                                                     : std::nullopt;
    if (count && *count >= 0 && *count <= UINT32_MAX) add(name, static_cast<uint32_t>(*count));
  }
}

void AddRequests(const json& spec, Pod& pod) {
  std::map<std::string, uint32_t> sum;
  std::map<std::string, uint32_t> most;  // of init containers, which run before
  for (const bool init : {false, true}) {
    const json* const containers = ListAt(spec, init ? "initContainers" : "containers");
    if (containers == nullptr) continue;
    for (const json& container : *containers) {
      const json& resources = ObjectAt(container, "resources");
      const json& requests = ObjectAt(resources, resources.contains("requests") ? "requests" : "limits");
      EachDevice(requests, [&](const std::string& name, uint32_t count) {
        if (init) {
          most[name] = std::max(most[name], count);
        } else {
          sum[name] += count;
        }
      });
    }
  }
  for (const auto& [name, count] : most) sum[name] = std::max(sum[name], count);
  for (const auto& [name, count] : sum) {
    if (count > 0) pod.devices.emplace_back(name, count);
  }
}

struct Request {
  int64_t cpu_milli = 0;
  int64_t bytes = 0;
};

Request ReadRequest(const json& amounts) {
  return {ReadMilli(TextAt(amounts, "cpu")).value_or(0), ReadBytes(TextAt(amounts, "memory")).value_or(0)};
}

// An init container that continues beside the others (a sidecar) holds its amounts from its start. The other init
// containers run one at a time, before the containers of the pod.
scheduler::HostAmounts HostOf(const json& spec) {
  const auto add = [](Request a, Request b) { return Request{a.cpu_milli + b.cpu_milli, a.bytes + b.bytes}; };
  const auto most = [](Request a, Request b) {
    return Request{std::max(a.cpu_milli, b.cpu_milli), std::max(a.bytes, b.bytes)};
  };
  const auto request_of = [](const json& container) {
    const json& resources = ObjectAt(container, "resources");
    return ReadRequest(ObjectAt(resources, resources.contains("requests") ? "requests" : "limits"));
  };
  Request beside;
  Request before;
  if (const json* const containers = ListAt(spec, "initContainers")) {
    for (const json& container : *containers) {
      const Request one = request_of(container);
      before = most(before, add(beside, one));
      if (TextAt(container, "restartPolicy") == "Always") beside = add(beside, one);
    }
  }
  if (const json* const containers = ListAt(spec, "containers")) {
    for (const json& container : *containers) beside = add(beside, request_of(container));
  }
  const Request all = add(most(before, beside), ReadRequest(ObjectAt(spec, "overhead")));
  constexpr int64_t kMib = 1 << 20;
  return {all.cpu_milli, (all.bytes + kMib - 1) / kMib};
}

void ReadContainer(const json& status, Pod& pod) {
  const json* const containers = ListAt(status, "containerStatuses");
  if (containers == nullptr) return;
  for (const json& container : *containers) {
    if (TextAt(container, "name") != kContainer) continue;
    const json& state = ObjectAt(container, "state");
    const json& waiting = ObjectAt(state, "waiting");
    pod.waiting = TextAt(waiting, "reason");
    pod.waiting_message = TextAt(waiting, "message");
    pod.running = state.contains("running");
    pod.started = TimeAt(ObjectAt(state, "running"), "startedAt");
    pod.terminated = state.contains("terminated");
    if (!pod.terminated) return;
    const json& ended = ObjectAt(state, "terminated");
    pod.started = TimeAt(ended, "startedAt");
    pod.finished = TimeAt(ended, "finishedAt");
    pod.terminated_reason = TextAt(ended, "reason");
    pod.terminated_message = TextAt(ended, "message");
    const auto code = ended.find("exitCode");
    if (code != ended.end() && code->is_number_integer()) pod.exit_code = code->get<int>();
    return;
  }
}

// The containers for weights, while the run's own waits for them.
void ReadWeightsContainers(const json& status, Pod& pod) {
  const json* const containers = ListAt(status, "initContainerStatuses");
  if (containers == nullptr || pod.running || pod.terminated) return;
  for (const json& container : *containers) {
    const std::string name = TextAt(container, "name");
    if (name != kWeightsContainer && name != kWeightsHolder) continue;
    const json& state = ObjectAt(container, "state");
    const std::string reason = TextAt(ObjectAt(state, "waiting"), "reason");
    if (!reason.empty() && reason != "PodInitializing") {
      pod.waiting = reason;
      pod.waiting_message = TextAt(ObjectAt(state, "waiting"), "message");
      return;
    }
    const json& ended = ObjectAt(state, "terminated");
    const auto code = ended.find("exitCode");
    if (name != kWeightsContainer || code == ended.end() || !code->is_number_integer() || *code == 0)
      continue;
    pod.weights_failure = TextAt(ended, "message");
    if (pod.weights_failure.empty()) pod.weights_failure = TextAt(ended, "reason");
    if (pod.weights_failure.empty()) pod.weights_failure = "without a message";
    pod.finished = TimeAt(ended, "finishedAt");
  }
}

void ReadConditions(const json& status, Pod& pod) {
  const json* const conditions = ListAt(status, "conditions");
  if (conditions == nullptr) return;
  for (const json& condition : *conditions) {
    const std::string type = TextAt(condition, "type");
    const std::string value = TextAt(condition, "status");
    if (type == "PodScheduled" && value == "False") {
      pod.unscheduled = TextAt(condition, "message");
      if (pod.unscheduled.empty()) pod.unscheduled = TextAt(condition, "reason");
    }
    if (type == "DisruptionTarget" && value == "True") pod.disrupted = TextAt(condition, "reason");
  }
}

}  // namespace

std::optional<int64_t> ReadMilli(std::string_view quantity) {
  const std::optional<double> number = ReadQuantity(quantity);
  return number ? Whole(*number * 1000) : std::nullopt;
}

std::optional<int64_t> ReadBytes(std::string_view quantity) {
  return Whole(ReadQuantity(quantity));
}

std::optional<Pod> ReadPod(const json& object) {
  const json& metadata = ObjectAt(object, "metadata");
  const json& spec = ObjectAt(object, "spec");
  const json& status = ObjectAt(object, "status");
  Pod pod;
  pod.name = TextAt(metadata, "name");
  if (pod.name.empty()) return std::nullopt;
  pod.uid = TextAt(metadata, "uid");
  pod.version = conf::ReadNumber<uint64_t>(TextAt(metadata, "resourceVersion")).value_or(0);
  pod.gateway = TextAt(ObjectAt(metadata, "labels"), kGatewayLabel);
  pod.mark = TextAt(ObjectAt(metadata, "annotations"), kRunAnnotation);
  pod.deleting = !TextAt(metadata, "deletionTimestamp").empty();
  pod.created = TimeAt(metadata, "creationTimestamp").value_or(conf::TimePoint());
  pod.node = TextAt(spec, "nodeName");
  pod.host_network = FlagAt(spec, "hostNetwork");
  pod.phase = TextAt(status, "phase");
  pod.reason = TextAt(status, "reason");
  pod.message = TextAt(status, "message");
  pod.ip = TextAt(status, "podIP");
  pod.host_ip = TextAt(status, "hostIP");
  AddRequests(spec, pod);
  pod.host = HostOf(spec);
  ReadConditions(status, pod);
  ReadContainer(status, pod);
  if (const json* const containers = ListAt(spec, "initContainers")) {
    pod.fetches_weights = std::ranges::any_of(
        *containers, [](const json& one) { return TextAt(one, "name") == kWeightsContainer; });
  }
  ReadWeightsContainers(status, pod);
  return pod;
}

std::optional<Node> ReadNode(const json& object) {
  const json& metadata = ObjectAt(object, "metadata");
  const json& spec = ObjectAt(object, "spec");
  const json& status = ObjectAt(object, "status");
  Node node;
  node.name = TextAt(metadata, "name");
  if (node.name.empty()) return std::nullopt;
  for (const auto& [name, value] : ObjectAt(metadata, "labels").items()) {
    if (value.is_string()) node.labels[name] = value.get<std::string>();
  }
  node.unschedulable = FlagAt(spec, "unschedulable");
  if (const json* const taints = ListAt(spec, "taints")) {
    for (const json& taint : *taints)
      node.taints.push_back({TextAt(taint, "key"), TextAt(taint, "value"), TextAt(taint, "effect")});
  }
  const json& allocatable = ObjectAt(status, "allocatable");
  EachDevice(allocatable, [&](const std::string& name, uint32_t count) { node.devices[name] = count; });
  node.cpu_milli = ReadMilli(TextAt(allocatable, "cpu")).value_or(0);
  node.memory_mib = ReadBytes(TextAt(allocatable, "memory")).value_or(0) >> 20;
  if (const json* const addresses = ListAt(status, "addresses")) {
    for (const json& address : *addresses) {
      if (node.address.empty() && TextAt(address, "type") == "InternalIP")
        node.address = TextAt(address, "address");
    }
  }
  if (const json* const conditions = ListAt(status, "conditions")) {
    for (const json& condition : *conditions) {
      if (TextAt(condition, "type") != "Ready") continue;
      node.ready = TextAt(condition, "status");
      node.ready_reason = TextAt(condition, "reason");
      node.ready_message = TextAt(condition, "message");
      node.ready_since = TimeAt(condition, "lastTransitionTime").value_or(conf::TimePoint());
    }
  }
  return node;
}

}  // namespace plugins::launchers::kubernetes
