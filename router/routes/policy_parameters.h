// The parameters of the routing policies. A model may have its own; the defaults of policies that follow
// another router are that router's.
#pragma once

namespace router {

// Weights of the terms of the `cost` policy; policies/cost.h has the formula. One set serves all loads, pool
// sizes and hardware that bench/routing tries.
struct CostWeights {
  double running = 0.1;       // per running request: how much a prefill delays it
  double pool = 0.15;         // per request of the pool's mean, likewise
  double decode = 0.08;       // of the time that the expected answer takes
  double pressure = 0.15;     // seconds at a half-full KV cache
  double usual_silence = 2;   // seconds without a token that cost nothing
  double other_zone = 0.5;    // seconds by which a replica of another zone must be better
  double adapter_load = 0.5;  // seconds to load a LoRA adapter, until it has been measured

  friend bool operator==(const CostWeights&, const CostWeights&) = default;
};

// Weights of the scorers of llm-d's endpoint picker.
struct EppWeights {
  double queue = 2;
  double kv = 2;
  double prefix = 3;
  double lora = 1;  // for requests for an adapter

  friend bool operator==(const EppWeights&, const EppWeights&) = default;
};

// SGLang's router: which share of the prompt a replica must hold to be chosen for it, and when the pool
// counts as imbalanced, so that the least loaded replica is chosen instead.
struct CacheAwareLimits {
  double match = 0.5;         // share of the prompt
  double imbalanced_by = 32;  // requests between the most and the least loaded replica
  double imbalanced_times = 1.1;

  friend bool operator==(const CacheAwareLimits&, const CacheAwareLimits&) = default;
};

// Consistent hashing with bounded load.
struct HashLimits {
  double bound = 1.25;  // most requests of a replica, as a multiple of its fair share

  friend bool operator==(const HashLimits&, const HashLimits&) = default;
};

}  // namespace router
