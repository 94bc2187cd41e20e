#include "router/load/adapter_plan.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace router {
namespace {

const AdapterReplica::Held* FindHeld(const AdapterReplica& replica, AdapterId id) {
  const auto at = std::ranges::find(replica.held, id, &AdapterReplica::Held::id);
  return at == replica.held.end() ? nullptr : &*at;
}

class AdapterPlanner {
 public:
  AdapterPlanner(std::span<const PlannedAdapter> adapters, std::span<const AdapterReplica> replicas,
                 uint32_t slots)
      : adapters_(adapters),
        replicas_(replicas),
        slots_(slots),
        copies_(adapters.size()),
        changed_(replicas.size()) {
    for (size_t a = 0; a < adapters_.size(); ++a) {
      copies_[a] = std::ranges::count_if(replicas_, [&](const AdapterReplica& replica) {
        return FindHeld(replica, adapters_[a].id) != nullptr || replica.loads == adapters_[a].id;
      });
    }
  }

  std::vector<AdapterChange> Plan() {
    for (uint32_t r = 0; r < replicas_.size(); ++r) {
      if (replicas_[r].ready) UnloadLeaving(r);
    }
    for (uint32_t r = 0; r < replicas_.size(); ++r) {
      if (replicas_[r].ready && !changed_[r] && HasFreeSlot(replicas_[r])) LoadNext(r);
    }
    for (size_t a = 0; a < adapters_.size(); ++a) {
      if (adapters_[a].waited_for && !adapters_[a].leaves && copies_[a] == 0) Displace(a);
    }
    return std::move(changes_);
  }

 private:
  bool HasFreeSlot(const AdapterReplica& replica) const {
    return slots_ == 0 || replica.held.size() + replica.others < slots_;
  }

  bool MayLoad(size_t adapter, uint32_t replica) const {
    const AdapterReplica& at = replicas_[replica];
    const AdapterId id = adapters_[adapter].id;
    return !adapters_[adapter].leaves && FindHeld(at, id) == nullptr &&
           std::ranges::find(at.refused, id) == at.refused.end();
  }

  void Change(AdapterChange change) {
    changed_[change.replica] = true;
    for (size_t a = 0; a < adapters_.size(); ++a) {
      if (adapters_[a].id == change.load) ++copies_[a];
      if (adapters_[a].id == change.unload) --copies_[a];
    }
    changes_.push_back(change);
  }

  void UnloadLeaving(uint32_t r) {
    for (const PlannedAdapter& adapter : adapters_) {
      const AdapterReplica::Held* const held = FindHeld(replicas_[r], adapter.id);
      if (!adapter.leaves || held == nullptr || held->in_use) continue;
      return Change({.replica = r, .unload = adapter.id});
    }
  }

  void LoadNext(uint32_t r) {
    std::optional<size_t> best;
    const auto rank = [&](size_t a) {
      return std::tuple(!adapters_[a].waited_for, copies_[a], -adapters_[a].used.time_since_epoch().count());
    };
    for (size_t a = 0; a < adapters_.size(); ++a) {
      if (MayLoad(a, r) && (!best || rank(a) < rank(*best))) best = a;
    }
    if (best) Change({.replica = r, .load = adapters_[*best].id});
  }

  // The adapter takes the slot of another.
  void Displace(size_t wanted) {
    struct Victim {
      uint32_t replica;
      size_t adapter;
    };
    std::optional<Victim> best;
    const auto rank = [&](const Victim& victim) {
      return std::tuple(copies_[victim.adapter] < 2, adapters_[victim.adapter].used);
    };
    for (uint32_t r = 0; r < replicas_.size(); ++r) {
      if (!replicas_[r].ready || changed_[r] || !MayLoad(wanted, r)) continue;
      for (size_t a = 0; a < adapters_.size(); ++a) {
        const AdapterReplica::Held* const held = FindHeld(replicas_[r], adapters_[a].id);
        if (held == nullptr || held->in_use || adapters_[a].waited_for) continue;
        const Victim victim{r, a};
        if (!best || rank(victim) < rank(*best)) best = victim;
      }
    }
    if (best)
      Change({.replica = best->replica, .unload = adapters_[best->adapter].id, .load = adapters_[wanted].id});
  }

  const std::span<const PlannedAdapter> adapters_;
  const std::span<const AdapterReplica> replicas_;
  const uint32_t slots_;
  std::vector<int64_t> copies_;  // replicas that hold or load it, by adapter
  std::vector<bool> changed_;
  std::vector<AdapterChange> changes_;
};

}  // namespace

std::vector<AdapterChange> PlanAdapters(std::span<const PlannedAdapter> adapters,
                                        std::span<const AdapterReplica> replicas, uint32_t slots) {
  return AdapterPlanner(adapters, replicas, slots).Plan();
}

}  // namespace router
