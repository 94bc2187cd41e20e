// What the cost policy's terms weigh; policies/cost.h has the formula. One set serves all loads, pool sizes
// and hardware that bench/routing tries; a model may have its own.
#pragma once

namespace router {

struct CostWeights {
  double running = 0.1;       // of each request there, in the delay that computing a prompt causes
  double pool = 0.1;          // of each request in the pool's mean, likewise
  double decode = 0.05;       // of the expected answer's time
  double pressure = 0.15;     // seconds at half-full KV cache
  double usual_silence = 2;   // seconds without a token that say nothing
  double other_zone = 0.5;    // seconds that a replica of another zone than the gateway's must be better
  double adapter_load = 0.5;  // seconds that loading a LoRA adapter takes, until it has been measured

  friend bool operator==(const CostWeights&, const CostWeights&) = default;
};

}  // namespace router
