// What the policies after others' routers go by, as those ship it; a model may have its own. The cost
// policy's are in cost_weights.h.
#pragma once

namespace router {

// llm-d's endpoint picker: what its scorers weigh.
struct EppWeights {
  double queue = 2;
  double kv = 2;
  double prefix = 3;
  double lora = 1;  // of requests for an adapter

  friend bool operator==(const EppWeights&, const EppWeights&) = default;
};

// SGLang's gateway: which part of a prompt must be known for its holder to be taken, and from when on the
// pool is out of balance, so that the least loaded is.
struct CacheAwareLimits {
  double match = 0.5;         // of the prompt
  double imbalanced_by = 32;  // requests, the most loaded before the least
  double imbalanced_times = 1.1;

  friend bool operator==(const CacheAwareLimits&, const CacheAwareLimits&) = default;
};

// Consistent hashing with bounded load.
struct HashLimits {
  double bound = 1.25;  // times its share of the requests that a replica may have

  friend bool operator==(const HashLimits&, const HashLimits&) = default;
};

}  // namespace router
