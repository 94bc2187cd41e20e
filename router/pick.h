// Which replica gets a request, and why.
//
// Pure but for the shared cells it is given: the same table, loads, time and random source give the same
// choice. The choice is charged before it is returned, so that no two shards choose on a load that leaves out
// the other's. Callable from every shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "conf/time.h"
#include "router/replica_load.h"
#include "router/route_table.h"
#include "scheduler/rng.h"

namespace router {

// What a policy may know of the request.
struct PickFacts {
  int64_t tokens = 1;  // estimated input plus expected output: what is charged
};

enum class NoneBecause : uint8_t {
  kPicked,      // there is a replica
  kNoReplicas,  // the model has none, or all are drained
  kAllTried,    // each usable one has been tried for this request
  kAllDown,     // health probes fail
  kAllBroken,   // breakers are open
  kAllResting,  // they asked for a pause (429, 503)
};
std::string_view ReasonText(NoneBecause because);

struct Decision {
  std::optional<ReplicaId> replica;
  Charge charge;
  std::string_view reason;   // the policy's, or ReasonText; static
  double score = 0;          // the policy's own figure for the choice, in its unit
  uint32_t considered = 0;   // replicas looked at
  bool failed_open = false;  // all were down, so health was not asked
  NoneBecause none = NoneBecause::kPicked;
  std::optional<conf::TimePoint> retry_at;  // when a broken or resting replica may be asked again
};

// A model's replicas as one request may use them; what policies choose from. Places count from 0 within the
// model.
class Candidates {
 public:
  Candidates(std::span<const Replica> replicas, const LoadView& load, std::span<const ReplicaId> tried,
             conf::TimePoint now, bool ask_health)
      : replicas_(replicas), load_(load), tried_(tried), now_(now), ask_health_(ask_health) {}

  uint32_t size() const { return static_cast<uint32_t>(replicas_.size()); }
  const Replica& replica(uint32_t place) const { return replicas_[place]; }
  ReplicaState& state(uint32_t place) const { return load_[replicas_[place].id]; }
  double weight(uint32_t place) const { return replicas_[place].spec.weight; }
  bool Tried(uint32_t place) const;
  bool Usable(uint32_t place) const;

  // Outstanding tokens with this request's, per unit of weight.
  double CostOf(uint32_t place, const PickFacts& facts) const {
    return static_cast<double>(state(place).load.tokens() + facts.tokens) / weight(place);
  }

 private:
  std::span<const Replica> replicas_;
  const LoadView& load_;
  std::span<const ReplicaId> tried_;
  conf::TimePoint now_;
  bool ask_health_;
};

struct Choice {
  uint32_t place;
  double score;
  uint32_t considered;
  std::string_view reason;
};

// A policy chooses a usable candidate, or none if there is none. How it looks for one is its own affair: it
// need not look at all of them.
using Policy = std::optional<Choice> (*)(const Candidates&, const PickFacts&, ModelCell&, scheduler::Rng&);

// Chooses by the model's policy among its replicas but for those already `tried`, and charges the choice.
Decision Pick(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

}  // namespace router
