// What the process knows of each replica while it runs: outstanding work, breaker, health, standing. Shared
// by all shards and kept over reloads, by identity.
//
// Load is charged when a replica is chosen, not when it answers, so that two shards never herd onto one; a
// Charge takes back exactly what it put, whenever and however the request ends.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/adapters.h"
#include "router/breaker.h"
#include "router/engine_signals.h"
#include "router/health.h"
#include "router/prefix/index.h"
#include "router/route_table.h"
#include "router/standing.h"

namespace router {

class alignas(64) ReplicaLoad {
 public:
  int64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  friend class Charge;
  void Add(int64_t requests, int64_t tokens) {
    requests_.fetch_add(requests, std::memory_order_relaxed);
    tokens_.fetch_add(tokens, std::memory_order_relaxed);
  }

  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> tokens_{0};
};

struct ReplicaState {
  // Joins the index, if there is one, and leaves it at the end, so that what it held is gone with it.
  ReplicaState(std::string name, prefix::Index* index);
  ~ReplicaState();
  ReplicaState(const ReplicaState&) = delete;
  ReplicaState& operator=(const ReplicaState&) = delete;

  const std::string identity;
  const uint64_t identity_hash;
  ReplicaLoad load;
  EngineSignals engine;
  AdapterSlots adapters;
  Breaker breaker;
  Health health;
  Standing standing;
  prefix::Index* const index;
  const std::optional<prefix::MemberId> member;  // in the index; none: no prefix of it is known
};

// Why new requests keep away from it, in one word; empty when they do not. `slow_start` when they come in
// part.
std::string_view WhyNotUsed(const ReplicaState& state, double weight, conf::TimePoint now);

// One request's share of a replica's load, and its leave to be there. Movable; ends with Settle or
// destruction.
class Charge {
 public:
  Charge() = default;
  Charge(std::shared_ptr<ReplicaState> state, int64_t tokens, Admission admission)
      : Charge(std::move(state), Work{.tokens = tokens}, admission, {}) {}
  Charge(std::shared_ptr<ReplicaState> state, const Work& work, Admission admission, conf::TimePoint now)
      : state_(std::move(state)), stay_{.work = work}, admission_(admission) {
    state_->load.Add(1, work.tokens);
    state_->engine.Begin(stay_, now);
  }
  ~Charge() { Release(); }
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  // It is for an adapter, which may have to be loaded there first; `expected` as AdapterSlots has it.
  void UseAdapter(AdapterId id, std::optional<double> expected);
  // It was refused: whatever comes now says nothing of the adapter.
  void LeaveAdapter();

  explicit operator bool() const { return state_ != nullptr; }
  const ReplicaState* state() const { return state_.get(); }
  int64_t tokens() const { return stay_.work.tokens; }
  const Work& work() const { return stay_.work; }
  conf::TimePoint began() const { return stay_.began; }

  // Replaces the estimate by what is now known to be outstanding (the input prefilled, output still to come).
  void Reestimate(int64_t tokens);

  // The prompt that was computed elsewhere is there: from now on the request is to be heard of.
  void Arrived(conf::TimePoint now);
  // It asks for other work than it was charged for: a prompt that was to be handed over is computed here.
  void Become(const Work& work, conf::TimePoint now);

  // The first token has come: the prompt is computed. Later calls change nothing, nor any for a unseen
  // request.
  void FirstToken(conf::TimePoint now);

  // It runs on these blocks until the charge ends: what FirstToken is to the load, to the prefix index.
  void Hold(std::vector<uint64_t> blocks, conf::TimePoint now);

  // Any further token has come.
  void Token(conf::TimePoint now) {
    if (state_) state_->engine.OnToken(now);
  }

  // The answer has come whole.
  void Answered(conf::TimePoint now);

  // The answer's last token has come: `generated` of them, from which the engine's pace is learnt; after
  // FirstToken or Answered.
  void LastToken(int64_t generated, conf::TimePoint now);

  // Tells the breaker how the request fares. The first verdict counts, and after a good one a bad end.
  void Report(Outcome outcome, conf::TimePoint now);

  // The replica asked for a pause (429, 503).
  void Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now);

  // Takes the load back; a trial without a verdict leaves the replica as untried as before.
  void Release();

 private:
  std::shared_ptr<ReplicaState> state_;
  Stay stay_;
  std::optional<conf::TimePoint> first_token_;
  Admission admission_ = Admission::kRefused;
  std::optional<Outcome> reported_;
  AdapterId adapter_ = AdapterId::kNone;
  std::vector<uint64_t> held_;  // blocks
  int64_t written_ = 0;         // tokens
};

// All replicas' states, by identity. Owned by the process, outlives every table.
class ReplicaStates {
 public:
  // Their replicas join `index`, which must outlive every state.
  explicit ReplicaStates(prefix::Index* index = nullptr) : index_(index) {}

  // The state for an identity, made if there is none. States that no one holds any more are dropped on the
  // way.
  std::shared_ptr<ReplicaState> Get(std::string_view identity);
  size_t size() const;

 private:
  prefix::Index* const index_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<ReplicaState>> states_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
};

// How fast a model's replicas were in their last window; the watching thread's.
struct PoolPace {
  conf::TimePoint begun{};  // of the window that runs
  double first_token = 0;   // medians; 0: not known
  double token = 0;
};

// What a model's replicas share over all shards: whose turn it is, and how much may be retried.
struct alignas(64) ModelCell {
  explicit ModelCell(const Model& model);

  std::atomic<uint64_t> turn{0};
  RetryBudget budget;
  // How many are suspected, and in slow start: zero but in trouble, so that a pick need not look.
  std::atomic<uint32_t> suspected{0};
  std::atomic<uint32_t> growing{0};
  PoolPace pace;
  // Places that were the least loaded of those looked at lately: who looks at a few is shown them again.
  std::array<std::atomic<uint32_t>, 4> least_loaded{};
  std::atomic<uint32_t> room_at{0};  // place where the next look for room begins
  absl::Mutex mutex;
  std::vector<double> credit ABSL_GUARDED_BY(mutex);  // of smooth weighted round robin, by place in the model
};

// A table's replicas and their states, by id. Built with the table, swapped with it; callable from every
// shard.
class LoadView {
 public:
  LoadView(const RouteTable& table, ReplicaStates& states);

  ReplicaState& operator[](ReplicaId id) const { return *states_[static_cast<size_t>(id)]; }
  const std::shared_ptr<ReplicaState>& shared(ReplicaId id) const { return states_[static_cast<size_t>(id)]; }
  // An adapter shares its base's.
  ModelCell& cell(ModelId id) const { return *cells_[static_cast<size_t>(id)]; }
  // Null where the model is no adapter.
  AdapterHomes* homes(ModelId id) const { return homes_[static_cast<size_t>(id)].get(); }
  // None when the member is no replica of this table (any more).
  std::optional<ReplicaId> Find(prefix::MemberId member) const;
  // By ReplicaState::identity_hash.
  std::optional<ReplicaId> FindIdentity(uint64_t hash) const;

 private:
  std::vector<std::shared_ptr<ReplicaState>> states_;
  std::vector<std::shared_ptr<ModelCell>> cells_;
  std::vector<std::unique_ptr<AdapterHomes>> homes_;
  std::vector<uint32_t> by_member_;  // ReplicaId, or kNobody
  absl::flat_hash_map<uint64_t, ReplicaId> by_identity_;
};

}  // namespace router
