// What one replica can do, and how much of it a request takes: seconds of the replica, prefill and decoding
// added. A decoding step costs its base once for all who share it, so that a token's part of it is what the
// request takes of a full batch: a place among those that may run, or its part of the KV cache, whichever is
// more. A replica whose requests take one second each second is as busy as it can be.
#pragma once

#include <cstdint>

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

// Seconds, of tokens of the prompt that must be computed and of all, and of the answer's.
double WorkOf(const Capacity& capacity, double uncached, double prompt, double output);

}  // namespace scheduler::autoscale
