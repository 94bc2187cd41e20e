// The capacity of one replica, and the part that a request takes: seconds of the replica, for prefill and
// decoding together.
//
// All sequences of a decoding step share its base cost, so a token's part of it is the part of a full batch
// that its request takes: one place of `max_running`, or its part of the KV cache, whichever is more. A
// replica whose requests take one second each second is fully used.
#pragma once

#include <cstdint>

#include "conf/time.h"
#include "scheduler/engine/model.h"

namespace scheduler::autoscale {

struct Capacity {
  double prefill_token = 0;  // seconds
  double step_base = 0;
  double step_sequence = 0;  // for each request that decodes
  double context_token = 0;  // for each token of context that such a request reads
  double max_running = 1;    // requests
  double kv_tokens = 1;
};

Capacity CapacityOf(const engine::Profile& profile);

// The number of requests with this much context that can decode together while a token comes every
// `inter_token`: at least one, at most max_running.
double MostInTime(const Capacity& capacity, double context, conf::Duration inter_token);

// The seconds that a request takes. `uncached`: tokens of its prompt that must be computed, of `prompt` in all. While
// it decodes, half of its answer is in the KV cache on average, and is read at each step.
double WorkOf(const Capacity& capacity, double uncached, double prompt, double output);
// The same where `output` is the mean of answers of different lengths: long answers hold more of the cache for longer,
// so on average `written` tokens of an answer are in the cache (AnswerSizes), more than half of the mean answer.
double WorkOf(const Capacity& capacity, double uncached, double prompt, double output, double written);

// The lengths of answers that have ended: at first all of them, later the last few hundred.
class AnswerSizes {
 public:
  explicit AnswerSizes(double mean)
      : mean_(mean), square_(mean * mean) {}  // what is expected before the first

  void Add(double output);
  double mean() const { return mean_; }
  // Mean number of tokens of an answer that are there while it decodes: E[output²] / (2 E[output]).
  double written() const { return square_ / (2 * mean_); }

 private:
  static constexpr double kLeastWeight = 0.002;

  double mean_;
  double square_;
  double count_ = 0;
};

}  // namespace scheduler::autoscale
