// What one replica can do, and how much of it a request takes: seconds of the replica, prefill and decoding
// added. A decoding step costs its base once for all who share it, so that a token's part of it is what the
// request takes of a full batch: a place among those that may run, or its part of the KV cache, whichever is
// more. A replica whose requests take one second each second is as busy as it can be.
#pragma once

#include <cstdint>

#include "conf/time.h"
#include "scheduler/engine/model.h"

namespace scheduler::autoscale {

struct Capacity {
  double prefill_token = 0;  // seconds
  double step_base = 0;
  double step_sequence = 0;  // for each request that decodes
  double context_token = 0;  // for each token of context that such a one reads
  double max_running = 1;    // requests
  double kv_tokens = 1;
};

Capacity CapacityOf(const engine::Profile& profile);

// Requests that can decode together, each with so many tokens of context, so that a token comes every
// `inter_token`: one at least, and no more than may run.
double MostInTime(const Capacity& capacity, double context, conf::Duration inter_token);

// Seconds, of tokens of the prompt that must be computed and of all, and of the answer's. While it decodes,
// half of its answer stands in the KV cache on the mean, and is read at each step.
double WorkOf(const Capacity& capacity, double uncached, double prompt, double output);
// Where `output` is what is expected of answers that differ: long ones hold more of the cache for longer, so
// that what stands there is `written` on the mean (AnswerSizes), more than half of the mean answer.
double WorkOf(const Capacity& capacity, double uncached, double prompt, double output, double written);

// How long answers are, by those that have ended; of all of them at first, then of the last few hundred.
class AnswerSizes {
 public:
  explicit AnswerSizes(double mean)
      : mean_(mean), square_(mean * mean) {}  // what is expected before the first

  void Add(double output);
  double mean() const { return mean_; }
  // Tokens of an answer that are there on the mean while one decodes: E[output²] / (2 E[output]).
  double written() const { return square_ / (2 * mean_); }

 private:
  static constexpr double kLeastWeight = 0.002;

  double mean_;
  double square_;
  double count_ = 0;
};

}  // namespace scheduler::autoscale
