// ShardMetrics: what one shard counts, in cells that cost a store to bump and that any thread may read.
//
// One writer (the shard), relaxed atomics, no read-modify-write. Cells of a model or replica outlive reloads
// by its name, so that counters never go back. metrics.cc adds the shards up when it is scraped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/keys/principal.h"
#include "gateway/ledger/record.h"

namespace gateway {

class Runtime;

class Cell {
 public:
  void Add(uint64_t n = 1) { value_.store(value() + n, std::memory_order_relaxed); }
  void Sub(uint64_t n = 1) { value_.store(value() - n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Buckets by upper bound; the last is +Inf.
struct DurationCells {
  // Seconds: OpenTelemetry's advice for gen_ai durations, with finer steps below 10 ms for what the gateway
  // adds.
  static constexpr std::array<double, 20> kBounds = {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,    0.02,   0.04,    0.08,   0.16,  0.32,   0.64,
                                                     1.28,    2.56,   5.12,    10.24,  20.48, 81.92};
  std::array<Cell, kBounds.size() + 1> buckets;
  Cell sum_ns;

  void Observe(conf::Duration d);
};

struct TokenCells {
  // OpenTelemetry's advice for gen_ai.client.token.usage.
  static constexpr std::array<double, 12> kBounds = {1,    4,     16,    64,     256,     1024,
                                                     4096, 16384, 65536, 262144, 1048576, 4194304};
  std::array<Cell, kBounds.size() + 1> buckets;
  Cell sum;

  void Observe(uint64_t tokens);
};

// Of the copies of a model's requests.
struct ShadowCells {
  Cell active;
  Cell skipped;   // not made: too large, too many, nobody to send it to
  Cell failed;    // without an answer
  Cell unpaired;  // answered, and the request was not
  Cell compared;
  Cell status_differs;  // these of compared ones
  Cell finish_differs;
  Cell output_tokens_differ;
  Cell text_differs;
  DurationCells time_to_first_token;
  DurationCells duration;
};

// What is asked of a model whose replicas are started and stopped by demand; see control/demand.h.
struct DemandCells {
  Cell work_ns;       // of a replica, that its requests take
  Cell held_work_ns;  // ... that wait at the gateway now
  Cell active;        // requests there now
};

// Of the requests of one class for a model: of those whose priority, their key's or their tenant's, is one
// band of the model's queue, whether there is a queue or not. See control/demand.h.
struct ClassCells {
  Cell came;            // that were let in by all limits
  Cell came_tokens;     // of their prompts, as estimated
  Cell active;          // requests there now
  Cell waiting;         // of these, at the gateway
  Cell waiting_tokens;  // of their prompts
  Cell refused;         // for want of room, at once or after they had waited
  Cell in_time;         // first tokens of streams within the slo.ttft of the model's policy; ...
  Cell late;            // after it, and
  Cell hopeless;        // of prompts that take an idle replica longer than that
  DurationCells time_to_first_token;
  DurationCells time_per_output_token;
};

struct ModelCells {
  std::array<Cell, ledger::kEndReasons> requests;  // by end reason
  Cell streams;
  Cell cached_tokens;
  Cell predicted_cached_tokens;
  Cell cost_micro_usd;
  Cell retries;
  Cell fallbacks;
  Cell handed_over;                    // answers whose prompt another replica computed
  Cell computed_here;                  // ... was to compute, and failed to
  Cell by_prefill;                     // answers of prefill replicas, nobody else being there
  std::array<Cell, 4> queue_refusals;  // by router::WaitRefusal; the first: waited as long as it may
  TokenCells input_tokens;             // of requests that used any
  TokenCells output_tokens;
  DurationCells duration;
  DurationCells time_to_first_token;
  DurationCells time_per_output_token;
  DurationCells queue_time;
  DurationCells prefill_time;
  DurationCells overhead;
  ShadowCells shadow;
  DemandCells demand;
  std::map<std::string, std::unique_ptr<ClassCells>, std::less<>> classes;  // by band
};

struct ReplicaCells {
  Cell attempts;
  Cell connect_failures;
  Cell broken;    // failed after the request was sent
  Cell refusals;  // 429 and 503
  Cell errors;    // other 5xx
  Cell timeouts;
  Cell hung;       // left for another replica, nothing having come from this one
  Cell cancelled;  // by the client's leaving
};

struct ShardCells {
#define TIDEGATE_COUNTER(name, help) Cell name;
#define TIDEGATE_GAUGE(name, help) Cell name;
#include "gateway/metrics/metrics.def"
#undef TIDEGATE_COUNTER
#undef TIDEGATE_GAUGE
};

class ShardMetrics {
 public:
  ShardCells cells;

  // Shard's thread, on each swap.
  void Bind(const Runtime& runtime);

  // Shard's thread, by ids of `runtime`: the one that was bound last, or one that was bound before.
  ModelCells& model(const Runtime& runtime, ModelId id) {
    return &runtime == bound_ ? *by_model_[static_cast<size_t>(id)] : Earlier(runtime, id);
  }
  // `band`: of the model's queue, as configured.
  ClassCells& of_class(const Runtime& runtime, ModelId id, size_t band) {
    return &runtime == bound_ ? *by_class_[static_cast<size_t>(id)][band] : Earlier(runtime, id, band);
  }
  ReplicaCells& replica(const Runtime& runtime, ReplicaId id) {
    return &runtime == bound_ ? *by_replica_[static_cast<size_t>(id)] : Earlier(runtime, id);
  }

  // Any thread: every model, with its classes, and every replica that was ever bound, by name.
  template <class Visit>
  void ForEachModel(Visit visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, cells_of] : models_) visit(name, *cells_of);
  }
  // The name is model@endpoint.
  template <class Visit>
  void ForEachReplica(Visit visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, cells_of] : replicas_) visit(name, *cells_of);
  }

 private:
  // Of requests that go on with the runtime they began with.
  ModelCells& Earlier(const Runtime& runtime, ModelId id);
  ClassCells& Earlier(const Runtime& runtime, ModelId id, size_t band);
  ReplicaCells& Earlier(const Runtime& runtime, ReplicaId id);

  const Runtime* bound_ = nullptr;  // compared, never followed
  mutable std::mutex mutex_;        // guards the maps; taken on a reload and on a scrape
  std::map<std::string, std::unique_ptr<ModelCells>> models_;
  std::map<std::string, std::unique_ptr<ReplicaCells>> replicas_;
  std::vector<ModelCells*> by_model_;
  std::vector<std::vector<ClassCells*>> by_class_;  // of each model, by band
  std::vector<ReplicaCells*> by_replica_;
};

}  // namespace gateway
