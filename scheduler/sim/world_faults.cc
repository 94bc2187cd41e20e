// Faults and repairs of nodes in a simulated world, and what they do to the jobs on them.
#include <algorithm>

#include "scheduler/sim/draws.h"
#include "scheduler/sim/world.h"

namespace scheduler::sim {

void World::FailNode(NodeId node) {
  if (down_[node]) return;
  ++counts_.faults;
  std::vector<uint32_t> hit;
  const ClusterState& state = planner_.state();
  for (const MemberId id : state.on(node)) hit.push_back(by_index_[state.member(id).job]);
  std::ranges::sort(hit);
  hit.erase(std::unique(hit.begin(), hit.end()), hit.end());
  for (const uint32_t job : hit) Settle(job);
  const bool was_quarantined = state.health(node) == Health::kQuarantined;
  planner_.NodeFault(node, now_);
  quarantined_[node] = !was_quarantined && state.health(node) == Health::kQuarantined;
  if (quarantined_[node]) ++counts_.quarantined;
  planner_.SetHealth(node, Health::kQuarantined, now_);  // down for now, whatever its record
  for (const uint32_t job : hit) {
    Life& life = lives_[job];
    Lose(job);
    if (life.stage == Stage::kStopping) {
      life.saves = false;  // it is stopped when its grace ends, with nothing left to save
    } else if (life.stage == Stage::kRunning) {
      ++counts_.restarts;
      ++life.epoch;
      life.idle = false;
      life.stage = Stage::kHalted;
      life.useful_from = conf::TimePoint::max();
      halted_.push_back(job);
    }
    UpdateHeld(job);
  }
  down_[node] = true;
  ++down_count_;
  ++node_epoch_[node];
  something_happened_ = true;
  const conf::Duration away =
      quarantined_[node] ? std::max(options_.repair, options_.quarantine) : options_.repair;
  events_.Push({now_ + away, node, 0, EventKind::kNodeIsBack});
}

void World::NodeIsBack(NodeId node) {
  down_[node] = false;
  --down_count_;
  if (quarantined_[node]) {
    planner_.SetHealth(node, Health::kHealthy, now_);
  } else {
    planner_.NodeRepaired(node, now_);
  }
  KeepOut(node);
  something_happened_ = true;
  if (options_.mtbf > conf::Duration::zero()) {
    events_.Push(
        {now_ + Exponential(fault_rng_, options_.mtbf), node, node_epoch_[node], EventKind::kNodeFails});
  }
}

// A node that is drained, or that the cluster takes out of use, stays so when it is back.
void World::KeepOut(NodeId node) {
  const Health stated = cluster_->nodes[node].health;
  if (drained_[node]) return planner_.SetHealth(node, Health::kDraining, now_);
  if (stated == Health::kDraining || stated == Health::kQuarantined) planner_.SetHealth(node, stated, now_);
}

// Jobs that lost members and that the plan neither stopped nor gave others go on with those that are left.
void World::ResumeHalted() {
  for (const uint32_t job : halted_) {
    Life& life = lives_[job];
    if (life.stage != Stage::kHalted) continue;
    Settle(job);
    life.stage = Stage::kRunning;
    life.useful_from = now_ + RestoreTime(job);
    UpdateHeld(job);
    Schedule(job);
  }
  halted_.clear();
}

}  // namespace scheduler::sim
