#include "scheduler/io/snapshot_check.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "conf/shown.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/placement/mix_learner.h"
#include "scheduler/queues/queue_defects.h"
#include "scheduler/queues/run_history.h"
#include "scheduler/state/node_state.h"

namespace scheduler::io {
namespace {

constexpr uint64_t kMostObserved = uint64_t{1} << 53;
constexpr size_t kMostReserved = 4096;  // each is tried on an empty cluster
constexpr double kMostUsage = 1e24;     // milli-device-seconds

// Why `holding` cannot be on the device, in words; null: it can.
const char* DeviceObstacle(const DeviceState& device, const Holding& holding, const TypeView& view) {
  if (device.free_mib < holding.device_mib) return "its memory is held twice";
  if (holding.profile == 0) {
    return device.used_slots == 0 && device.free_milli >= holding.milli ? nullptr : "it is held twice";
  }
  const PartitionProfile& profile = view.layout->profiles[holding.profile - 1u];
  if (!std::ranges::count(profile.starts, holding.start)) return "a partition cannot start there";
  const bool cut = device.used_slots != 0 || device.free_milli == kWholeDevice;
  return cut && (device.used_slots & SlotBits(profile, holding.start)) == 0 ? nullptr : "it is held twice";
}

std::string DefectOfShare(const Holding& holding) {
  const int ways = (holding.milli > 0) + (holding.profile > 0);
  if (ways != (holding.devices != 0)) return "devices, and a share or a partition of them, belong together";
  if (holding.milli != kWholeDevice && std::popcount(holding.devices) > 1) {
    return "more than one device is held in part";
  }
  return {};
}

class HoldingCheck {
 public:
  explicit HoldingCheck(const Snapshot& snapshot) : HoldingCheck(snapshot.cluster, snapshot.tenants.size()) {}

  // The same cluster, with nothing held.
  HoldingCheck Emptied() const { return {*cluster_, tenants_}; }

  std::string Add(const Holding& holding) {
    if (holding.node >= states_.size()) return fmt::format("node {} does not exist", holding.node);
    const std::string& name = cluster_->nodes[holding.node].name;
    const TypeView view = ViewOf(*cluster_, cluster_->nodes[holding.node].type);
    NodeState& state = states_[holding.node];
    if (holding.devices >> state.devices != 0) {
      return fmt::format("devices {:#x} of node {}, which has {}", holding.devices, name, state.devices);
    }
    if (holding.tenant > tenants_) return fmt::format("tenant {} does not exist", holding.tenant);
    if (holding.milli > kWholeDevice) return fmt::format("{} thousandths of a device", holding.milli);
    if (holding.profile != 0 && (view.layout == nullptr || holding.profile > view.layout->profiles.size())) {
      return fmt::format("partition profile {} does not exist on node {}", holding.profile, name);
    }
    if (state.members == UINT16_MAX) return fmt::format("node {} has too many members", name);
    if (holding.cpu_milli < 0 || holding.memory_mib < 0 || holding.device_mib < 0) {
      return "a negative amount is held";
    }
    if (holding.cpu_milli > state.free_cpu_milli || holding.memory_mib > state.free_memory_mib) {
      return fmt::format("more CPU or memory of node {} is held than it has", name);
    }
    for (uint32_t left = holding.devices; left != 0; left &= left - 1) {
      const auto d = static_cast<size_t>(std::countr_zero(left));
      if (const char* obstacle = DeviceObstacle(state.device[d], holding, view)) {
        return fmt::format("device {} of node {}: {}", d, name, obstacle);
      }
    }
    if (std::string defect = DefectOfShare(holding); !defect.empty()) return defect;
    Take(state, holding, view);
    return {};
  }

 private:
  HoldingCheck(const Cluster& cluster, size_t tenants) : cluster_(&cluster), tenants_(tenants) {
    for (NodeId n = 0; n < cluster.nodes.size(); ++n) states_.push_back(EmptyNode(cluster, n));
  }

  const Cluster* cluster_;
  size_t tenants_;
  std::vector<NodeState> states_;
};

std::string DefectOf(const std::vector<MemberAt>& members, const Job& job, HoldingCheck& holdings) {
  absl::flat_hash_set<std::pair<uint16_t, uint32_t>> seen;
  for (const MemberAt& member : members) {
    if (member.role >= job.roles.size() || member.rank >= job.roles[member.role].count) {
      return fmt::format("member {} of role {} does not exist", member.rank, member.role);
    }
    if (!seen.emplace(member.role, member.rank).second) {
      return fmt::format("member {} of role {} is given twice", member.rank, member.role);
    }
    if (std::string defect = holdings.Add(member.holding); !defect.empty()) {
      return fmt::format("member {} of role {}: {}", member.rank, member.role, defect);
    }
  }
  return {};
}

std::string DefectOfMoment(std::string_view name, std::optional<conf::TimePoint> at) {
  if (!at || (*at >= kEarliest && *at <= kLastMoment)) return {};
  return fmt::format("{} {} is not between 1970 and 2220", name, conf::FormatTime(*at));
}

// Each member once, at a place that the cluster has; it need not be free.
std::string DefectOfPins(const Job& job, const HoldingCheck& holdings) {
  if (job.pinned.empty()) return {};
  if (job.pinned.size() != Members(job))
    return fmt::format("is pinned to {} places, but has {} members", job.pinned.size(), Members(job));
  HoldingCheck alone = holdings.Emptied();
  return DefectOf(job.pinned, job, alone);
}

std::string DefectOf(const JobState& state, HoldingCheck& holdings) {
  if (std::string defect = FirstDefect(state.job); !defect.empty()) return defect;
  for (const auto& [name, at] :
       {std::pair("started", std::optional(state.started)), std::pair("moved", std::optional(state.moved)),
        std::pair("checkpointed", std::optional(state.checkpointed)),
        std::pair("stops_at", std::optional(state.stops_at)), std::pair("idle_since", state.idle_since)}) {
    if (std::string defect = DefectOfMoment(name, at); !defect.empty()) return defect;
  }
  if (state.done < conf::Duration::zero() || state.done > kLongest) {
    return fmt::format("done {} is not between 0s and {}", conf::InWords(state.done), kLongestInWords);
  }
  if (std::string defect = DefectOfPins(state.job, holdings); !defect.empty()) return "pinned: " + defect;
  const bool holds = !state.members.empty() || !state.leaving.empty();
  if (holds && (state.phase == Phase::kPending || state.phase == Phase::kSuspended)) {
    return fmt::format("is {}, but has members", Name(state.phase));
  }
  if (std::string defect = DefectOf(state.members, state.job, holdings); !defect.empty()) return defect;
  return DefectOf(state.leaving, state.job, holdings);
}

// Sums of them must stay numbers.
std::string DefectOf(const DemandCount& item, const Cluster& cluster) {
  const Shape& shape = item.shape;
  const bool in_part = shape.milli > 0 || shape.is_partition();
  if (item.count == 0 || item.count > kMostObserved) return fmt::format("was asked for {} times", item.count);
  if (shape.cpu_milli < 0 || shape.cpu_milli > kMostAmount)
    return fmt::format("cpu_milli {}", shape.cpu_milli);
  if (shape.count > kMaxDevices || shape.milli > kWholeDevice || (shape.count > 0 && in_part)) {
    return fmt::format("{} devices and {} thousandths", shape.count, shape.milli);
  }
  if (cluster.kinds.size() < 64 && shape.kinds >> cluster.kinds.size() != 0) {
    return fmt::format("kinds {:#x} of {}", shape.kinds, cluster.kinds.size());
  }
  if (!shape.profile.empty() && shape.profile.size() != cluster.layouts.size()) {
    return fmt::format("profiles of {} layouts, there are {}", shape.profile.size(), cluster.layouts.size());
  }
  for (size_t layout = 0; layout < shape.profile.size(); ++layout) {
    if (shape.profile[layout] > cluster.layouts[layout].profiles.size()) {
      return fmt::format("profile {} of layout {}", shape.profile[layout], cluster.layouts[layout].name);
    }
  }
  return {};
}

std::string DefectOf(const LearnedDemand& demand, const Cluster& cluster) {
  if (demand.observed > kMostObserved || demand.next > kMostObserved || demand.version > kMostObserved) {
    return "demand: more was observed than can be";
  }
  if (demand.observed > 0 && demand.next <= demand.observed) {
    return fmt::format("demand: next {} is not above observed {}", demand.next, demand.observed);
  }
  for (const auto* items : {&demand.seen, &demand.in_use}) {
    if (items->size() > MixLearner::kMostShapes + 1) return fmt::format("demand: {} shapes", items->size());
    for (const DemandCount& item : *items) {
      if (std::string defect = DefectOf(item, cluster); !defect.empty()) return "demand: a shape: " + defect;
    }
  }
  return {};
}

std::string DefectOf(const LearnedRuns& runs) {
  constexpr double kMostRuns = 1 / (1 - RunHistory::kKeep);
  constexpr double kRounding = 1 + 1e-9;
  const double most = conf::ToSeconds(RunHistory::kLongestRun);
  const auto within = [](double value, double bound) { return value >= 0 && value <= bound * kRounding; };
  if (runs.size() > RunHistory::kMostClasses) {
    return fmt::format("runs: {} classes, at most {} are kept", runs.size(), RunHistory::kMostClasses);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSums& sums = runs[i].sums;
    if (i > 0 && !(runs[i - 1].of < runs[i].of)) return fmt::format("runs/{}: is not in order of class", i);
    if (!(sums.runs > 0 && within(sums.runs, kMostRuns)))
      return fmt::format("runs/{}: {} runs", i, sums.runs);
    if (!within(sums.seconds, most * sums.runs) || !within(sums.squares, most * most * sums.runs)) {
      return fmt::format("runs/{}: {} seconds and {} squares of {} runs", i, sums.seconds, sums.squares,
                         sums.runs);
    }
  }
  return {};
}

std::string DefectOf(const std::vector<Queue>& queues, const Cluster& cluster) {
  constexpr size_t kMostDepth = 16;
  if (queues.size() > kMostQueues)
    return fmt::format("{} queues, at most {} fit", queues.size(), kMostQueues);
  std::map<std::string_view, std::string_view> parent_of;
  for (const Queue& queue : queues) {
    parent_of.emplace(queue.name, queue.parent);
    const DeviceQuota none;
    for (const auto* quota :
         {&queue.deserved, &queue.limit, &queue.user_limit, queue.lends ? &*queue.lends : &none}) {
      for (const auto& [kind, milli] : *quota) {
        if (milli > kMostAmount) return fmt::format("queue \"{}\": {} of {}", queue.name, milli, kind);
      }
    }
  }
  for (const Queue& queue : queues) {
    size_t depth = 0;
    for (auto up = parent_of.find(queue.parent); up != parent_of.end(); up = parent_of.find(up->second)) {
      if (++depth >= kMostDepth)
        return fmt::format("queue \"{}\" is deeper than {} queues", queue.name, kMostDepth);
    }
  }
  return scheduler::FirstDefect(queues, cluster);
}

std::set<std::string_view> LeavesOf(const std::vector<Queue>& queues) {
  std::set<std::string_view> leaves;
  for (const Queue& queue : queues) leaves.insert(queue.name);
  for (const Queue& queue : queues) leaves.erase(queue.parent);
  return leaves;
}

constexpr int64_t kMostMilliwatts = static_cast<int64_t>(kMostWatts) * 1000;

std::string DefectOf(const NodeHealth& health, const NodeType& type) {
  if (health.broken_devices >> type.devices != 0) {
    return fmt::format("broken devices {:#x}, it has {}", health.broken_devices, type.devices);
  }
  if (health.emptied_devices >> type.devices != 0) {
    return fmt::format("emptied devices {:#x}, it has {}", health.emptied_devices, type.devices);
  }
  if (health.unmodelled_milliwatts > kMostMilliwatts || health.unmodelled_milliwatts < -kMostMilliwatts)
    return "draws more watts than a node can";
  if (health.others.cpu_milli < 0 || health.others.memory_mib < 0) return "others hold a negative amount";
  for (const conf::TimePoint at : health.faults) {
    if (std::string defect = DefectOfMoment("a fault's time", at); !defect.empty()) return defect;
  }
  return {};
}

std::string DefectOf(const Reserved& reserved, const Job* job, const Snapshot& snapshot) {
  if (job == nullptr) return "does not exist";
  for (const auto& [name, at] : {std::pair("start", reserved.start), std::pair("end", reserved.end)}) {
    if (std::string defect = DefectOfMoment(name, at); !defect.empty()) return defect;
  }
  for (const NodeId node : reserved.nodes) {
    if (node >= snapshot.cluster.nodes.size()) return fmt::format("node {} does not exist", node);
  }
  if (reserved.members.empty()) return {};
  HoldingCheck empty(snapshot);
  return DefectOf(reserved.members, *job, empty);
}

}  // namespace

std::string FirstDefect(const Snapshot& snapshot) {
  const Cluster& cluster = snapshot.cluster;
  if (std::string defect = scheduler::FirstDefect(cluster); !defect.empty()) return defect;
  if (std::string excess = FirstExcess(cluster); !excess.empty()) return excess;
  for (const auto& [name, at] :
       {std::pair("as_of", snapshot.as_of), std::pair("defragmented", snapshot.defragmented)}) {
    if (std::string defect = DefectOfMoment(name, at); !defect.empty()) return defect;
  }
  for (const conf::TimePoint at : snapshot.moves) {
    if (std::string defect = DefectOfMoment("a move's time", at); !defect.empty()) return defect;
  }
  if (!snapshot.health.empty() && snapshot.health.size() != cluster.nodes.size()) {
    return fmt::format("health of {} nodes, the cluster has {}", snapshot.health.size(),
                       cluster.nodes.size());
  }
  for (NodeId n = 0; n < snapshot.health.size(); ++n) {
    if (std::string defect = DefectOf(snapshot.health[n], cluster.type_of(n)); !defect.empty()) {
      return fmt::format("health of node {}: {}", cluster.nodes[n].name, defect);
    }
  }
  if (std::string defect = DefectOf(snapshot.queues, cluster); !defect.empty()) return defect;
  for (const auto& [who, amount] : snapshot.usage) {
    if (!(amount >= 0 && amount <= kMostUsage))
      return fmt::format("usage of queue \"{}\": {}", who.first, amount);
  }
  if (std::string defect = DefectOf(snapshot.demand, cluster); !defect.empty()) return defect;
  if (std::string defect = DefectOf(snapshot.runs); !defect.empty()) return defect;
  if (absl::flat_hash_set<std::string>(snapshot.tenants.begin(), snapshot.tenants.end()).size() !=
      snapshot.tenants.size()) {
    return "a tenant is given twice";
  }
  const auto leaves = LeavesOf(snapshot.queues);
  HoldingCheck holdings(snapshot);
  absl::flat_hash_map<std::string, const Job*> jobs;
  for (const JobState& job : snapshot.jobs) {
    if (!jobs.emplace(job.job.id, &job.job).second)
      return fmt::format("job \"{}\" is given twice", job.job.id);
    if (!leaves.empty() && !leaves.contains(job.job.queue)) {
      return fmt::format("job \"{}\": there is no leaf queue \"{}\"", job.job.id, job.job.queue);
    }
    if (std::string defect = DefectOf(job, holdings); !defect.empty()) {
      return fmt::format("job \"{}\": {}", job.job.id, defect);
    }
  }
  if (snapshot.reserved.size() > kMostReserved) {
    return fmt::format("{} reservations, at most {} fit", snapshot.reserved.size(), kMostReserved);
  }
  for (const Reserved& reserved : snapshot.reserved) {
    const auto job = jobs.find(reserved.job);
    const Job* whose = job == jobs.end() ? nullptr : job->second;
    if (std::string defect = DefectOf(reserved, whose, snapshot); !defect.empty()) {
      return fmt::format("reserved for job \"{}\": {}", reserved.job, defect);
    }
  }
  return {};
}

}  // namespace scheduler::io
