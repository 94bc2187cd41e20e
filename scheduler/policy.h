// How the planner decides, as an operator writes it. Defaults are what `tidegate simulate jobs` runs without a
// policy file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"

namespace scheduler {

// A term of the queue's order, which is by the sum of weight · term (order.h has the list of terms).
struct OrderTerm {
  std::string name;  // "priority", "fair-share", "age", "size", …
  double weight = 1;
};

enum class Backfill : uint8_t {
  kFifo,          // nothing overtakes: the first job that does not fit stops the line
  kBestEffort,    // whatever fits starts; large jobs may starve
  kEasy,          // the first waiting job has a reservation that others may not delay
  kConservative,  // the first `depth` waiting jobs have one
};
inline constexpr conf::Word<Backfill> kBackfillWords[] = {{"fifo", Backfill::kFifo},
                                                          {"best-effort", Backfill::kBestEffort},
                                                          {"easy", Backfill::kEasy},
                                                          {"conservative", Backfill::kConservative}};

enum class VictimOrder : uint8_t { kLeastCost, kRandom, kYoungest };

struct BackfillPolicy {
  Backfill kind = Backfill::kEasy;
  uint32_t depth = 16;                                       // reservations of kConservative
  conf::Duration unknown_estimate = std::chrono::hours(24);  // of jobs that say nothing
  bool evict_overrunning =
      false;  // a backfilled job that outlives its estimate makes way at the reservation's start
};

struct PreemptionPolicy {
  bool by_priority = true;  // higher priority may stop lower
  bool reclaim = true;      // a queue below its deserved share may stop work of queues above theirs
  VictimOrder victims = VictimOrder::kLeastCost;
  conf::Duration grace =
      std::chrono::seconds(30);  // between the signal and the kill, at least a checkpoint's save
  uint32_t max_victims = 64;     // jobs, for one start
};

struct DefragmentPolicy {
  bool enabled = false;
  conf::Duration every = std::chrono::minutes(10);
  uint32_t partition_nodes = 500;
  uint32_t max_moves = 16;  // in one round
  uint32_t depth = 3;       // of moves that make room for moves
};

// Moves of running work, each for a gain that is named: a waiting job fits, a gang comes together, a faulty device
// becomes empty. Whole nodes that become free are the gain of DefragmentPolicy, within the same budget.
struct MovesPolicy {
  uint32_t per_hour = 0;  // moved jobs; 0: work moves only off draining nodes and by DefragmentPolicy
  conf::Duration rest = std::chrono::minutes(30);        // a job that has started or moved since then stays
  conf::Duration least_left = std::chrono::minutes(15);  // a job that is expected to end sooner stays
  conf::Duration least_gain = std::chrono::minutes(10);  // by which a waiting job must start earlier
};

struct FaultPolicy {
  uint32_t suspect_after = 1;  // faults of a node within `window`
  uint32_t quarantine_after = 3;
  conf::Duration window = std::chrono::hours(24);
  conf::Duration recover_after = std::chrono::hours(1);  // without a fault, suspect becomes healthy
  bool hot_swap = true;  // replace one member of a gang instead of restarting all
};

struct Policy {
  std::vector<OrderTerm> order = {
      {"priority", 1'000'000}, {"fair-share", 1'000}, {"overdue", 1'000}, {"age", 1}};
  std::string placement = "default";
  std::string inference_placement = "spread";
  std::vector<std::string> inference_zone{};  // leaf groups kept for inference; empty: none
  BackfillPolicy backfill{};
  PreemptionPolicy preemption{};
  DefragmentPolicy defragment{};
  MovesPolicy moves{};
  FaultPolicy faults{};
  conf::Duration usage_half_life = std::chrono::hours(24 * 7);
};

}  // namespace scheduler
