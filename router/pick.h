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
#include <vector>

#include "conf/time.h"
#include "router/cost_terms.h"
#include "router/pick_log.h"
#include "router/replica_load.h"
#include "router/route_table.h"
#include "scheduler/rng.h"

namespace router {

// A replica that holds the beginning of the prompt.
struct PrefixMatch {
  ReplicaId replica;
  int64_t tokens;
};

// What a policy may know of the request.
struct PickFacts {
  int64_t tokens = 1;                        // estimated input plus expected output: what is charged
  int64_t prompt_tokens = 0;                 // 0: not known, nothing is taken to be computed
  int64_t output_tokens = 0;                 // expected
  bool whole = false;                        // the answer is not streamed: its first token is not seen
  int64_t max_output = 0;                    // the most that its answer may have; 0: not known
  uint64_t affinity = 0;                     // of the session, or of the prompt's beginning; 0: none
  std::span<const PrefixMatch> cached = {};  // the longest first; the caller's, and outlives its use
  TrackId track = kStable;                   // a canary's, or the stable one
  std::optional<ReplicaId> of_session = {};  // the replica that its session has used last
  PickLog* log = nullptr;                    // where to keep what was seen; the caller's; null: nowhere
  Part part = Part::kWhole;
  bool may_hand_over = false;  // the request can be said in two parts; where the pool's replicas can
  // Of Part::kDecode: from how many uncached tokens on the prompt is computed by a prefill replica, and how
  // long that is expected to take. 0 tokens: never.
  int64_t handover_from = 0;
  double handover_seconds = 0;
  bool prefer_room = false;  // whoever has room before others; see admission/room.h
};

// Of a request that waits: facts that own what they view, and keep no log.
class KeptFacts {
 public:
  explicit KeptFacts(const PickFacts& facts)
      : cached_(facts.cached.begin(), facts.cached.end()), facts_(facts) {
    facts_.cached = cached_;
    facts_.log = nullptr;
  }
  KeptFacts(KeptFacts&&) = default;
  KeptFacts& operator=(KeptFacts&&) = default;

  const PickFacts& get() const { return facts_; }

 private:
  std::vector<PrefixMatch> cached_;  // moved, its elements stay where they are
  PickFacts facts_;
};

// Who holds how much of the prompt: the index's findings as a policy reads them, in tokens. Leaves out who is
// not in the table. Gives back how many of `out` were filled.
size_t MatchesOf(const LoadView& load, std::span<const prefix::Holder> holders, size_t prompt_blocks,
                 int64_t prompt_tokens, std::span<PrefixMatch> out);

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
  CostTerms terms;           // of the score, where it is in seconds
  int64_t cached = 0;        // tokens of the prompt that the choice is taken to hold
  bool handed_over = false;  // the prompt is to be computed elsewhere
  uint32_t considered = 0;   // replicas looked at
  bool failed_open = false;  // all were down, so health was not asked
  bool by_prefill = false;   // a prefill replica serves it whole, nobody else being there
  NoneBecause none = NoneBecause::kPicked;
  std::optional<conf::TimePoint> retry_at;  // when a broken or resting replica may be asked again
};

// Who is left alone while anybody else can take a request.
struct Shunned {
  bool suspected = false;           // those that hang or were ejected
  std::optional<double> mean = {};  // requests that others hold: those in slow start may hold a part of it
};

// What a request for a LoRA adapter asks of a replica.
struct AdapterWanted {
  AdapterId id = AdapterId::kNone;      // kNone: nothing
  const AdapterHomes* homes = nullptr;  // not null, where id is given
  bool shun_lacking = false;            // those that are known to have no such adapter
};

// Which of a model's replicas are looked at.
struct Scope {
  TrackId track = kStable;
  bool own_zone = false;  // only those of the gateway's zone
  Roles roles = kAnswerers;
  Shunned shunned = {};
  const PickFacts* room_for = nullptr;  // not null: only those that have room for it; see admission/room.h
  AdapterWanted adapter = {};
};

// A model's replicas as one request may use them; what policies choose from. Places count from 0 within the
// model.
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
  // Where a policy leaves what it saw; null: nobody wants to know.
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
  // See HasRoom().
  bool HasRoomFor(uint32_t place, const PickFacts& facts) const;
  Signals Read(uint32_t place) const { return state(place).engine.Read(now_); }
  const AdapterWanted& adapter() const { return scope_.adapter; }
  AdapterStanding AdapterAt(uint32_t place) const {
    return state(place).adapters.Read(scope_.adapter.id, now_);
  }
  // The replica's place here, if it is one of these.
  std::optional<uint32_t> PlaceOf(ReplicaId id) const;
  // Tokens of the prompt that it is taken to hold; never all of them, since the last must be computed.
  int64_t HeldAt(uint32_t place, const PickFacts& facts) const;
  // Tokens that it need not compute: those that it holds, or all, where the prompt is handed over to it.
  int64_t CachedAt(uint32_t place, const PickFacts& facts) const;

  // Outstanding tokens with this request's, per unit of weight.
  double CostOf(uint32_t place, const PickFacts& facts) const {
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

// A policy chooses a usable candidate, or none if there is none. How it looks for one is its own affair: it
// need not look at all of them.
using Policy = std::optional<Choice> (*)(const Candidates&, const PickFacts&, ModelCell&, scheduler::Rng&);

// Chooses by the model's policy among its replicas but for those already `tried`, and charges the choice.
//
// Who has a session stays with its replica while that can be used. A canary's requests go to the stable
// replicas when none of its own can be used, never the other way round. Policies other than cost, which has
// a term for it, look into other zones only when nobody in the gateway's own can be used or all are
// saturated.
Decision Pick(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

}  // namespace router
