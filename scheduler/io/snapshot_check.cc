#include "scheduler/io/snapshot_check.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/state/node_state.h"

namespace scheduler::io {
namespace {

// What keeps `holding` from standing on the device, in words; null: nothing.
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

class HoldingCheck {
 public:
  explicit HoldingCheck(const Snapshot& snapshot)
      : cluster_(&snapshot.cluster), tenants_(snapshot.tenants.size()) {
    const Cluster& cluster = snapshot.cluster;
    for (NodeId n = 0; n < cluster.nodes.size(); ++n) states_.push_back(EmptyNode(cluster, n));
  }

  std::string Add(const Holding& holding) {
    if (holding.node >= states_.size()) return fmt::format("node {} does not exist", holding.node);
    const std::string& name = cluster_->nodes[holding.node].name;
    const TypeView view = cluster_->view(cluster_->nodes[holding.node].type);
    NodeState& state = states_[holding.node];
    if (holding.devices >> state.devices != 0) {
      return fmt::format("devices {:#x} of node {}, which has {}", holding.devices, name, state.devices);
    }
    if (holding.tenant > tenants_) return fmt::format("tenant {} does not exist", holding.tenant);
    if (holding.milli > kWholeDevice) return fmt::format("{} thousandths of a device", holding.milli);
    if (holding.profile != 0 && (view.layout == nullptr || holding.profile > view.layout->profiles.size())) {
      return fmt::format("partition profile {} does not exist on node {}", holding.profile, name);
    }
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
    Take(state, holding, view);
    return {};
  }

 private:
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

std::string DefectOf(const JobState& state, HoldingCheck& holdings) {
  if (std::string defect = FirstDefect(state.job); !defect.empty()) return defect;
  if (state.phase == Phase::kPending && !state.members.empty()) return "is pending, but has members";
  if (std::string defect = DefectOf(state.members, state.job, holdings); !defect.empty()) return defect;
  return DefectOf(state.leaving, state.job, holdings);
}

std::string DefectOf(const Reserved& reserved, const Snapshot& snapshot) {
  const auto job = std::ranges::find(snapshot.jobs, reserved.job, [](const JobState& j) { return j.job.id; });
  if (job == snapshot.jobs.end()) return "does not exist";
  for (const NodeId node : reserved.nodes) {
    if (node >= snapshot.cluster.nodes.size()) return fmt::format("node {} does not exist", node);
  }
  HoldingCheck empty(snapshot);
  return DefectOf(reserved.members, job->job, empty);
}

}  // namespace

std::string FirstDefect(const Snapshot& snapshot) {
  if (std::string defect = scheduler::FirstDefect(snapshot.cluster); !defect.empty()) return defect;
  if (!snapshot.health.empty() && snapshot.health.size() != snapshot.cluster.nodes.size()) {
    return fmt::format("health of {} nodes, the cluster has {}", snapshot.health.size(),
                       snapshot.cluster.nodes.size());
  }
  HoldingCheck holdings(snapshot);
  absl::flat_hash_set<std::string> ids;
  for (const JobState& job : snapshot.jobs) {
    if (!ids.insert(job.job.id).second) return fmt::format("job \"{}\" is given twice", job.job.id);
    if (std::string defect = DefectOf(job, holdings); !defect.empty()) {
      return fmt::format("job \"{}\": {}", job.job.id, defect);
    }
  }
  for (const Reserved& reserved : snapshot.reserved) {
    if (std::string defect = DefectOf(reserved, snapshot); !defect.empty()) {
      return fmt::format("reserved for job \"{}\": {}", reserved.job, defect);
    }
  }
  return {};
}

}  // namespace scheduler::io
