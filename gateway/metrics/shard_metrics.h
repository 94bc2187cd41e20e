// ShardMetrics: the counters of one shard. A cell costs a store to bump, and any thread may read it.
//
// One writer (the shard), relaxed atomics, no read-modify-write. The cells of a model or replica are kept by
// its name and outlive reloads, so that counters never decrease. admin/metrics.cc adds the shards up for a
// scrape.
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
#include "gateway/ledger/record.h"
#include "gateway/metrics/served_names.h"
#include "router/routes/route_table.h"

namespace gateway {

using router::ModelId;
using router::ReplicaId;

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
  // Seconds: OpenTelemetry's buckets for gen_ai durations, with finer steps below 10 ms for the gateway's
  // overhead.
  static constexpr std::array<double, 20> kBounds = {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,    0.02,   0.04,    0.08,   0.16,  0.32,   0.64,
                                                     1.28,    2.56,   5.12,    10.24,  20.48, 81.92};
  std::array<Cell, kBounds.size() + 1> buckets;
  Cell sum_ns;

  void Observe(conf::Duration d);
};

struct TokenCells {
  // OpenTelemetry's buckets for gen_ai.client.token.usage.
  static constexpr std::array<double, 12> kBounds = {1,    4,     16,    64,     256,     1024,
                                                     4096, 16384, 65536, 262144, 1048576, 4194304};
  std::array<Cell, kBounds.size() + 1> buckets;
  Cell sum;

  void Observe(uint64_t tokens);
};

// The shadow copies of a model's requests.
struct ShadowCells {
  Cell active;
  Cell skipped;   // not made: too large, too many, or no replica
  Cell failed;    // had no answer
  Cell unpaired;  // had an answer, but the request had none
  Cell compared;
  Cell status_differs;  // among the compared, like the next three
  Cell finish_differs;
  Cell output_tokens_differ;
  Cell text_differs;
  DurationCells time_to_first_token;
  DurationCells duration;
};

// The demand for a model with a scaling policy; see shard/demand.h.
struct DemandCells {
  Cell work_ns;       // time of one replica that its requests need
  Cell held_work_ns;  // ... of requests that wait at the gateway now
  Cell active;        // requests in progress
  Cell lines;         // of batches, in progress; they count nowhere else here
};

// The requests of one class for a model. A class is a band of the model's queue, named by the request's
// priority; it exists without a queue, too. See shard/demand.h.
struct ClassCells {
  Cell came;            // admitted by all limits
  Cell came_tokens;     // of their prompts, as estimated
  Cell active;          // in progress
  Cell waiting;         // of these, waiting at the gateway
  Cell waiting_tokens;  // of their prompts
  Cell refused;         // by the queue, at once or after a wait
  Cell in_time;         // first tokens of streams within slo.ttft of the model's policy
  Cell late;            // ... after it
  Cell hopeless;        // ... of prompts for which an idle replica needs longer than that
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
  Cell handed_over;                    // answers with a prompt that a prefill replica computed
  Cell computed_here;                  // ... that a prefill replica failed to compute
  Cell by_prefill;                     // answers of prefill replicas, for want of others
  std::array<Cell, 4> queue_refusals;  // by router::QueueRefusal; the first: waited too long
  TokenCells input_tokens;             // of requests with any
  TokenCells output_tokens;
  Cell output_flow;  // the same tokens, of streams as they come
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

// Sums of the natural logarithms of durations, in microseconds, as millionths: the mean and the spread of times that
// are skewed.
struct LogCells {
  Cell count;
  Cell sum;
  Cell sum_of_squares;

  void Observe(conf::Duration d);
};

struct ReplicaCells {
  Cell attempts;
  Cell connect_failures;
  Cell broken;    // failed after the request was sent
  Cell refusals;  // 429 and 503
  Cell errors;    // other 5xx
  Cell timeouts;
  Cell hung;             // the request left for another replica: this one sent nothing
  Cell cancelled;        // the client left
  LogCells first_token;  // from the dispatch of requests that it answered
  LogCells token_time;   // between tokens of their answers
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

  // Shard's thread, at each swap of the runtime.
  void Bind(const ServedNames& names);

  // Shard's thread. `names` are those of the runtime that gave the id: the bound one, or an earlier one.
  ModelCells& model(const ServedNames& names, ModelId id) {
    return &names == bound_ ? *by_model_[static_cast<size_t>(id)] : Earlier(names, id);
  }
  // `band`: index in the model's queue.
  ClassCells& of_class(const ServedNames& names, ModelId id, size_t band) {
    return &names == bound_ ? *by_class_[static_cast<size_t>(id)][band] : Earlier(names, id, band);
  }
  ReplicaCells& replica(const ServedNames& names, ReplicaId id) {
    return &names == bound_ ? *by_replica_[static_cast<size_t>(id)] : Earlier(names, id);
  }

  // Any thread: every model and replica that was ever bound, by name.
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
  // For requests that continue with an earlier runtime.
  ModelCells& Earlier(const ServedNames& names, ModelId id);
  ClassCells& Earlier(const ServedNames& names, ModelId id, size_t band);
  ReplicaCells& Earlier(const ServedNames& names, ReplicaId id);

  const ServedNames* bound_ = nullptr;  // compared only; never dereferenced
  mutable std::mutex mutex_;            // guards the maps; taken by a reload and a scrape
  std::map<std::string, std::unique_ptr<ModelCells>> models_;
  std::map<std::string, std::unique_ptr<ReplicaCells>> replicas_;
  std::vector<ModelCells*> by_model_;
  std::vector<std::vector<ClassCells*>> by_class_;  // of each model, by band
  std::vector<ReplicaCells*> by_replica_;
};

}  // namespace gateway
