// One model's autoscaler: how many replicas its policy asks for, tick by tick, and what to do about it.
//
//   law -> held requests and idleness -> behavior -> floors and bounds -> which replicas
//
// Replicas are counted by state: ready, coming (pending, or without a place so far) and draining. To scale
// up, draining replicas are taken back before new ones are started. To scale down, replicas without a place
// go first, then coming ones, then the ready ones with the least to do. A start that takes more than twice as
// long as nine of ten starts took has failed: it is given up and another one is started. So neither a replica
// that never gets ready nor one that cannot be placed keeps the count from following demand.
//
// Pure but for what it remembers. Times must not go back. One owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/autoscale/behavior.h"
#include "scheduler/autoscale/demand.h"
#include "scheduler/autoscale/hpa.h"
#include "scheduler/autoscale/kpa.h"
#include "scheduler/autoscale/policy.h"

namespace scheduler::autoscale {

// The signals of a model at a tick.
struct Signals {
  DemandSignals demand{};
  double in_flight = 0;  // requests, at replicas or held
  double held = 0;       // of these, at the gateway until a replica can take them
};

enum class ReplicaPhase : uint8_t { kPending, kUnplaced, kReady, kDraining };

struct ReplicaView {
  uint32_t id = 0;
  ReplicaPhase phase = ReplicaPhase::kReady;
  conf::TimePoint since{};  // of this phase
  uint32_t in_flight = 0;   // requests there
};

struct Decision {
  uint32_t wanted = 0;
  double demand = 0;                  // replicas, of the law demand; else what its rule gave
  std::string_view why;               // static: what decided the number
  double headroom = 0;                // of the law demand: part of demand, for first tokens that were late
  double late = 0;                    // likewise: share of the recent first tokens
  uint32_t start = 0;                 // new replicas
  std::vector<uint32_t> take_back{};  // that drain
  std::vector<uint32_t> drain{};      // that are ready
  std::vector<uint32_t> cancel{};     // that are on their way
  std::vector<uint32_t> failed{};     // whose start took too long: to be given up
};

class Autoscaler {
 public:
  explicit Autoscaler(ScalingPolicy policy);

  // `cold_start`: within which nine of ten starts were ready; zero: none was measured, and none is given up.
  Decision Tick(const Signals& signals, std::span<const ReplicaView> replicas, conf::Duration cold_start,
                conf::TimePoint now);

  // An operator keeps this number of replicas; absent: no longer. The law goes on to learn.
  void Hold(std::optional<uint32_t> replicas) { held_ = replicas; }

  // What the law has learned of the traffic, for another autoscaler of the model. Absent: its law learns nothing.
  std::optional<Hindsight::Memory> memory() const;
  bool Recall(const Hindsight::Memory& memory, conf::TimePoint at, conf::TimePoint now) {
    return policy_.law == Law::kDemand && demand_.Recall(memory, at, now);
  }

  const ScalingPolicy& policy() const { return policy_; }
  // Replicas that the requests of about the last minute keep busy, by the work that they are, wherever they wait.
  double recent_load() const { return recent_load_; }

 private:
  struct Counts {
    uint32_t ready = 0;
    uint32_t coming = 0;  // pending and unplaced
    uint32_t there() const { return ready + coming; }
  };
  uint32_t AskLaw(const Signals& signals, const Counts& counts, conf::Duration cold_start,
                  conf::TimePoint now, Decision& out);
  uint32_t Bounded(const Signals& signals, uint32_t wanted, uint32_t there, conf::TimePoint now,
                   Decision& out);

  ScalingPolicy policy_;
  DemandLaw demand_;
  Kpa kpa_;
  Hpa hpa_;
  BehaviorLimits limits_;
  std::optional<conf::TimePoint> busy_at_;
  double recent_load_ = 0;
  std::optional<conf::TimePoint> last_;
  uint32_t floor_ = 0;  // of the schedule
  std::optional<conf::TimePoint> floor_at_;
  std::optional<uint32_t> held_;
};

}  // namespace scheduler::autoscale
