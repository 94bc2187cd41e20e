// Which LoRA adapters the gateway loads and unloads at which replicas.
//
// For each replica, at most one change at a time:
//   1. an adapter that is to go is unloaded once no request uses it;
//   2. while a slot is free, an adapter that the replica lacks is loaded: one that requests wait for first, then the
//      one that the fewest replicas hold, then the one used last;
//   3. an adapter that requests wait for, and that no replica holds or loads, takes the slot of the adapter that was
//      used the longest ago among those that no request uses. One that another replica holds too goes first.
// An adapter for which no request waits displaces none: it is loaded again when a request needs it.
//
// Pure. The same input gives the same plan: ties go to the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/routes/adapter_id.h"

namespace router {

struct PlannedAdapter {
  AdapterId id = AdapterId::kNone;
  bool leaves = false;      // it is to be unloaded everywhere
  bool waited_for = false;  // requests wait for it, or an operator does
  conf::TimePoint used{};   // when a request for it began last
};

struct AdapterReplica {
  struct Held {
    AdapterId id = AdapterId::kNone;
    bool in_use = false;
  };
  std::vector<Held> held;              // of the planned adapters
  std::vector<AdapterId> refused;      // adapters that the engine has refused lately
  uint32_t others = 0;                 // adapters that it holds beside the planned ones
  AdapterId loads = AdapterId::kNone;  // the adapter that a call under way loads
  bool ready = false;                  // it can be asked now: it serves, and no call is under way
};

struct AdapterChange {
  uint32_t replica = 0;
  AdapterId unload = AdapterId::kNone;  // first
  AdapterId load = AdapterId::kNone;

  friend bool operator==(const AdapterChange&, const AdapterChange&) = default;
};

// `slots`: adapters that one engine holds at a time; 0: any number.
std::vector<AdapterChange> PlanAdapters(std::span<const PlannedAdapter> adapters,
                                        std::span<const AdapterReplica> replicas, uint32_t slots);

}  // namespace router
