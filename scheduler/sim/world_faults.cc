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
  planner_.NodeFault(node, now_);
  planner_.SetHealth(node, Health::kQuarantined, now_);
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
  events_.Push({now_ + options_.repair, node, 0, EventKind::kNodeIsBack});
}

void World::NodeIsBack(NodeId node) {
  down_[node] = false;
  --down_count_;
  planner_.SetHealth(node, Health::kHealthy, now_);
  something_happened_ = true;
  if (options_.mtbf > conf::Duration::zero()) {
    events_.Push(
        {now_ + Exponential(fault_rng_, options_.mtbf), node, node_epoch_[node], EventKind::kNodeFails});
  }
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
