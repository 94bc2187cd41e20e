// The replicas that one request may use, as policies see them: the facts of the request (PickFacts), the replicas in
// scope, and which of them are usable now (Candidates).
//
// Pure but for the shared state that it reads. Callable from every shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/load/replica_load.h"
#include "router/pick_log.h"
#include "router/prefix/index.h"
#include "router/routes/route_table.h"
#include "scheduler/rng.h"

namespace router {

// A replica that holds the beginning of the prompt in its KV cache.
struct PrefixMatch {
  ReplicaId replica;
  int64_t tokens;
};

// The facts of a request that policies see.
struct PickFacts {
  int64_t tokens = 1;                        // estimated input plus expected output: the charged load
  int64_t prompt_tokens = 0;                 // 0: not known, the prompt counts as nothing to compute
  int64_t output_tokens = 0;                 // expected
  bool not_streamed = false;                 // the answer comes in one piece: its first token is not seen
  int64_t max_output = 0;                    // upper bound of the answer; 0: not known
  uint64_t affinity = 0;                     // hash of the session or of the prompt's beginning; 0: none
  std::span<const PrefixMatch> cached = {};  // longest first; owned by the caller, who keeps it alive
  TrackId track = kStable;                   // a canary's, or stable
  std::optional<ReplicaId> of_session = {};  // the replica that the session used last
  PickLog* log = nullptr;                    // where to record what was seen; null: nowhere
  Part part = Part::kWhole;
  bool may_split = false;  // prompt and answer may be served by two replicas, where the pool can do that
  // For Part::kDecode: how many uncached tokens make a prefill replica compute the prompt (0: never), and the
  // seconds that this is expected to take.
  int64_t remote_prefill_from = 0;
  double remote_prefill_seconds = 0;
  CallerId caller = kAnyCaller;  // the caller that may have caused a failure
  bool prefer_headroom = false;  // replicas with headroom before others; see load/headroom.h
  bool spare = false;            // nobody waits for it: its headroom is load/spare_room.h's
};

// The facts of a request that waits: owns what they refer to, and records nothing.
class OwnedPickFacts {
 public:
  explicit OwnedPickFacts(const PickFacts& facts)
      : cached_(facts.cached.begin(), facts.cached.end()), facts_(facts) {
    facts_.cached = cached_;
    facts_.log = nullptr;
  }
  OwnedPickFacts(OwnedPickFacts&&) = default;
  OwnedPickFacts& operator=(OwnedPickFacts&&) = default;

  const PickFacts& get() const { return facts_; }

 private:
  std::vector<PrefixMatch> cached_;  // a move keeps its elements in place
  PickFacts facts_;
};

// Converts what the prefix index found from blocks to tokens of this prompt. Leaves out members that are not
// in the table. Returns how many entries of `out` were filled.
size_t MatchesOf(const LoadView& load, std::span<const prefix::Holder> holders, size_t prompt_blocks,
                 int64_t prompt_tokens, std::span<PrefixMatch> out);

// Replicas to leave alone while others can take the request.
struct Avoidance {
  bool suspected = false;                    // replicas that hang or are ejected
  std::optional<double> mean_requests = {};  // of the others: a replica in slow start may hold a part of it
};

// The LoRA adapter that a request needs.
struct AdapterWanted {
  AdapterId id = AdapterId::kNone;                // kNone: no adapter
  const AdapterPlacements* placements = nullptr;  // not null where id is given
  bool avoid_missing = false;                     // avoid replicas known to miss the adapter
  bool must_be_held = false;                      // only replicas that AdapterSlots::Holds() it
};

AdapterWanted WantedBy(const Model& model, const LoadView& load);

// Whether requests of the model wait until the gateway has loaded its adapter: no replica holds it, and some could.
bool WaitsForAdapter(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now);

// Which of a model's replicas are considered.
struct Scope {
  TrackId track = kStable;
  bool own_zone = false;  // only replicas of the gateway's zone
  Roles roles = kAnswerers;
  Avoidance avoid = {};
  const PickFacts* headroom_for = nullptr;  // not null: only replicas with headroom for this request
  AdapterWanted adapter = {};
};

// A model's replicas as one request may use them. A place is an index within the model, from 0.
class Candidates {
 public:
  Candidates(const ModelSpec& spec, std::span<const Replica> replicas, const LoadView& load,
             std::span<const ReplicaId> tried, conf::TimePoint now, bool ask_health, const Scope& scope = {},
             PickTrace* trace = nullptr)
      : spec_(spec),
        replicas_(replicas),
        load_(load),
        tried_(tried),
        now_(now),
        ask_health_(ask_health),
        scope_(scope),
        trace_(trace) {}

  const ModelSpec& spec() const { return spec_; }
  const CostWeights& cost_weights() const { return spec_.cost; }
  // Where a policy records what it saw; null: nowhere.
  PickTrace* trace() const { return trace_; }

  conf::TimePoint now() const { return now_; }

  uint32_t size() const { return static_cast<uint32_t>(replicas_.size()); }
  const Replica& replica(uint32_t place) const { return replicas_[place]; }
  ReplicaState& state(uint32_t place) const { return load_[replicas_[place].id]; }
  double weight(uint32_t place) const { return replicas_[place].spec.weight; }
  bool local(uint32_t place) const { return replicas_[place].local; }
  bool InScope(uint32_t place) const {
    const Replica& r = replicas_[place];
    return r.track == scope_.track && (r.local || !scope_.own_zone) && r.spec.weight > 0 &&
           (scope_.roles & RoleBit(r.spec.role)) != 0;
  }
  bool Tried(uint32_t place) const;
  bool Usable(uint32_t place) const;
  bool HasHeadroomFor(uint32_t place, const PickFacts& facts) const;
  ReplicaSignals Read(uint32_t place) const { return state(place).engine.Read(now_); }
  const AdapterWanted& adapter() const { return scope_.adapter; }
  AdapterAvailability AdapterAt(uint32_t place) const {
    return state(place).adapters.Read(scope_.adapter.id, now_);
  }
  // The place of a replica, if it is one of these.
  std::optional<uint32_t> PlaceOf(ReplicaId id) const;
  bool LacksAdapter(uint32_t place) const {
    return scope_.adapter.must_be_held && !state(place).adapters.Holds(scope_.adapter.id);
  }
  // Tokens of the prompt that the replica is assumed to hold; never all of them, since the last one must be computed.
  int64_t HeldAt(uint32_t place, const PickFacts& facts) const;
  // Tokens that the replica need not compute: those that it holds, or all, where another replica computes the
  // prompt.
  int64_t CachedAt(uint32_t place, const PickFacts& facts) const;

  // Outstanding tokens per unit of weight, this request's included.
  double LoadWith(uint32_t place, const PickFacts& facts) const {
    return static_cast<double>(state(place).load.tokens() + facts.tokens) / weight(place);
  }

 private:
  const ModelSpec& spec_;
  std::span<const Replica> replicas_;
  const LoadView& load_;
  std::span<const ReplicaId> tried_;
  conf::TimePoint now_;
  bool ask_health_;
  Scope scope_;
  PickTrace* trace_;
};

struct Choice {
  uint32_t place;
  double score;
  uint32_t considered;
  std::string_view reason;
  CostTerms terms = {};
};

// A policy chooses a usable candidate; absent when none is usable. It may look at any number of candidates.
using Policy = std::optional<Choice> (*)(const Candidates&, const PickFacts&, ModelCell&, scheduler::Rng&);

}  // namespace router
