// What the process knows of each replica while it runs: outstanding work, breaker, health, outlier status.
// Shared by all shards and kept over reloads, by identity.
//
// Load is charged when a replica is chosen, not when it answers, so that two shards never herd onto one
// replica. A Charge takes back exactly what it added, whenever and however the request ends.
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

#include "router/health/breaker.h"
#include "router/health/health.h"
#include "router/health/outlier_status.h"
#include "router/load/adapter_slots.h"
#include "router/load/engine_signals.h"
#include "router/prefix/index.h"
#include "router/routes/route_table.h"

namespace router {

class alignas(64) ReplicaLoad {
 public:
  int64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }
  // Negative amounts take load away.
  void Add(int64_t requests, int64_t tokens) {
    requests_.fetch_add(requests, std::memory_order_relaxed);
    tokens_.fetch_add(tokens, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> tokens_{0};
};

// State of DetectOutliers for one replica between two passes; nothing else reads or writes it.
struct OutlierMemory {
  bool usable = false;           // at the last pass
  SpeedTotals totals;            // when the window, or the ejection, began
  uint32_t slow_windows = 0;     // in a row
  conf::Duration next_eject{};   // 0: as configured
  conf::TimePoint good_since{};  // when its last ejection ended
};

struct ReplicaState {
  // Joins the prefix index, where there is one; the destructor leaves it, and with that drops its entries.
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
  OutlierStatus outlier;
  OutlierMemory outlier_memory;
  std::atomic<int> refused_credentials{0};  // the status of its last answer, where that was 401 or 403
  // It refuses requests with stream_options and answers them without; until then (since the epoch, in
  // nanoseconds) it is not asked for usage.
  std::atomic<int64_t> no_usage_until{0};
  prefix::Index* const index;
  const std::optional<prefix::MemberId> member;  // in the index; none: its prefixes are not tracked
};

// Why the replica gets no new requests, in one word, or `slow_start` when it gets fewer; empty when it gets
// its full share.
std::string_view WhyNotUsed(const ReplicaState& state, double weight, conf::TimePoint now);

// One request's part of a replica's load and its admission by the breaker. Movable; ends with Release or
// destruction. Owner: the request, on its shard.
class Charge {
 public:
  Charge() = default;
  Charge(std::shared_ptr<ReplicaState> state, int64_t tokens, Admission admission)
      : Charge(std::move(state), Work{.tokens = tokens}, admission, {}) {}
  Charge(std::shared_ptr<ReplicaState> state, const Work& work, Admission admission, conf::TimePoint now)
      : state_(std::move(state)), request_{.work = work}, admission_(admission) {
    state_->load.Add(1, work.tokens);
    state_->engine.Begin(request_, now);
  }
  ~Charge() { Release(); }
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  // The request needs an adapter, which may have to be loaded first; `expected` as in AdapterSlots::Begin.
  void UseAdapter(AdapterId id, std::optional<double> expected);
  // The request was refused: later events say nothing about the adapter.
  void LeaveAdapter();

  explicit operator bool() const { return state_ != nullptr; }
  const ReplicaState* state() const { return state_.get(); }
  int64_t tokens() const { return request_.work.tokens; }
  const Work& work() const { return request_.work; }
  conf::TimePoint began() const { return request_.began; }

  // The prompt that another replica computed has arrived: from now on tokens are expected.
  void PrefillArrived(conf::TimePoint now);
  // The request takes other work than it was charged for: a prompt that was to come from elsewhere is
  // computed here.
  void ChangeWork(const Work& work, conf::TimePoint now);

  // The first token has come: the prompt is computed. Later calls change nothing, and no call does for an
  // unseen request.
  void FirstToken(conf::TimePoint now);

  // Pins these blocks in the prefix index until the charge ends, because the request runs on them.
  void Hold(std::vector<uint64_t> blocks, conf::TimePoint now);

  // A further token has come.
  void Token(conf::TimePoint now) {
    if (state_) state_->engine.OnToken(now);
  }

  // The whole answer has come.
  void Answered(conf::TimePoint now);

  // The last of `generated` tokens has come; the engine's pace is learnt from them. Call after FirstToken or
  // Answered.
  void LastToken(int64_t generated, conf::TimePoint now);

  // Tells the breaker how the request went. The first report counts, and after a good one a bad one.
  void Report(Outcome outcome, conf::TimePoint now, CallerId caller = kAnyCaller);

  // The replica asked for a pause (429, 503).
  void Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now, CallerId caller);

  // Takes the load back. A breaker trial without a report is given back, too.
  void Release();

 private:
  std::shared_ptr<ReplicaState> state_;
  InFlightRequest request_;
  std::optional<conf::TimePoint> first_token_;
  Admission admission_ = Admission::kRefused;
  std::optional<Outcome> reported_;
  AdapterId adapter_ = AdapterId::kNone;
  std::vector<uint64_t> held_;  // blocks
  int64_t written_ = 0;         // tokens
};

// The states of all replicas, by identity. Owned by the process; outlives every table.
class ReplicaStates {
 public:
  // Replicas join `index`, which must outlive every state.
  explicit ReplicaStates(prefix::Index* index = nullptr) : index_(index) {}

  // The state of an identity, created if there is none. States without a holder are dropped in
  // passing.
  std::shared_ptr<ReplicaState> Get(std::string_view identity);
  size_t size() const;

 private:
  prefix::Index* const index_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<ReplicaState>> states_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
};

// How fast a model's replicas were in their last window. Only DetectOutliers reads or writes it.
struct PoolPace {
  conf::TimePoint window_start{};
  double first_token = 0;  // medians; 0: not known
  double token = 0;
};

// The state of one model that all shards share: state of policies, the retry budget, hints where to look first.
struct alignas(64) ModelCell {
  explicit ModelCell(const Model& model);

  std::atomic<uint64_t> turn{0};
  RetryBudget budget;
  // Replicas that are suspected, and in slow start. Mostly zero, and then a pick need not look at any.
  std::atomic<uint32_t> suspected{0};
  std::atomic<uint32_t> in_slow_start{0};
  PoolPace pace;
  // The least loaded places of recent picks: a policy that samples a few replicas includes them.
  std::array<std::atomic<uint32_t>, 4> least_loaded{};
  std::atomic<uint32_t> headroom_hint{0};  // place where the next search begins
  absl::Mutex mutex;
  std::vector<double> credit ABSL_GUARDED_BY(mutex);  // of the weighted policy, by place in the model
};

// The states of a table's replicas, by id. Built with the table and swapped with it; callable from every
// shard.
class LoadView {
 public:
  LoadView(const RouteTable& table, ReplicaStates& states);

  ReplicaState& operator[](ReplicaId id) const { return *states_[static_cast<size_t>(id)]; }
  const std::shared_ptr<ReplicaState>& shared(ReplicaId id) const { return states_[static_cast<size_t>(id)]; }
  // An adapter shares the cell of its base.
  ModelCell& cell(ModelId id) const { return *cells_[static_cast<size_t>(id)]; }
  // Null when the model is no adapter.
  AdapterPlacements* placements(ModelId id) const { return placements_[static_cast<size_t>(id)].get(); }
  // None when no replica of this table is that member.
  std::optional<ReplicaId> Find(prefix::MemberId member) const;
  // Finds a replica by ReplicaState::identity_hash.
  std::optional<ReplicaId> FindIdentity(uint64_t hash) const;

 private:
  std::vector<std::shared_ptr<ReplicaState>> states_;
  std::vector<std::shared_ptr<ModelCell>> cells_;
  std::vector<std::unique_ptr<AdapterPlacements>> placements_;
  std::vector<uint32_t> by_member_;  // ReplicaId, or kNobody
  absl::flat_hash_map<uint64_t, ReplicaId> by_identity_;
};

}  // namespace router
