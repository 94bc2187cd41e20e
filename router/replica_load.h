// What the process knows of each replica while it runs: outstanding work, breaker, health. Shared by all
// shards and kept over reloads, by identity.
//
// Load is charged when a replica is chosen, not when it answers, so that two shards never herd onto one; a
// Charge takes back exactly what it put, whenever and however the request ends.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/breaker.h"
#include "router/health.h"
#include "router/route_table.h"

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
  explicit ReplicaState(std::string name) : identity(std::move(name)) {}

  const std::string identity;
  ReplicaLoad load;
  Breaker breaker;
  Health health;
};

// One request's share of a replica's load, and its leave to be there. Movable; ends with Settle or
// destruction.
class Charge {
 public:
  Charge() = default;
  Charge(std::shared_ptr<ReplicaState> state, int64_t tokens, Admission admission)
      : state_(std::move(state)), tokens_(tokens), admission_(admission) {
    state_->load.Add(1, tokens_);
  }
  ~Charge() { Release(); }
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  explicit operator bool() const { return state_ != nullptr; }
  const ReplicaState* state() const { return state_.get(); }
  int64_t tokens() const { return tokens_; }

  // Replaces the estimate by what is now known to be outstanding (the input prefilled, output still to come).
  void Reestimate(int64_t tokens);

  // Tells the breaker how the request fares. The first verdict counts, and after a good one a bad end.
  void Report(Outcome outcome, conf::TimePoint now);

  // The replica asked for a pause (429, 503).
  void Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now);

  // Takes the load back; a trial without a verdict leaves the replica as untried as before.
  void Release();

 private:
  std::shared_ptr<ReplicaState> state_;
  int64_t tokens_ = 0;
  Admission admission_ = Admission::kRefused;
  std::optional<Outcome> reported_;
};

// All replicas' states, by identity. Owned by the process, outlives every table.
class ReplicaStates {
 public:
  // The state for an identity, made if there is none. States that no one holds any more are dropped on the
  // way.
  std::shared_ptr<ReplicaState> Get(std::string_view identity);
  size_t size() const;

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<ReplicaState>> states_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
};

// What a model's replicas share over all shards: whose turn it is, and how much may be retried.
struct alignas(64) ModelCell {
  explicit ModelCell(const Model& model);

  std::atomic<uint64_t> turn{0};
  RetryBudget budget;
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
  ModelCell& cell(ModelId id) const { return *cells_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::shared_ptr<ReplicaState>> states_;
  std::vector<std::unique_ptr<ModelCell>> cells_;
};

}  // namespace router
