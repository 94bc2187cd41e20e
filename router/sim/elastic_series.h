// How a pool did over time: what arrived, what it was reckoned to need, what was there, and how soon first
// tokens came, in steps of equal length.
#pragma once

#include <cstdint>
#include <vector>

#include "conf/time.h"

namespace router::sim {

// The state at the end of a step, and what happened in it.
struct ElasticSample {
  double second = 0;  // since the begin
  double work = 0;    // replicas that what arrived in the step keeps busy
  double demand = 0;  // replicas, as the law reckons; of a plan, what it says
  uint32_t ready = 0;
  uint32_t coming = 0;
  uint32_t draining = 0;
  uint32_t held = 0;          // requests
  uint32_t first_tokens = 0;  // in the step
  uint32_t late = 0;          // of these
  double ttft_p50 = 0;        // seconds, of these; 0 where there are none
  double ttft_p99 = 0;

  uint32_t replicas() const { return ready + coming + draining; }  // that are paid for
};

class ElasticSeries {
 public:
  // Steps of zero: nothing is kept.
  explicit ElasticSeries(conf::Duration step) : step_(step) {}

  void Arrived(double work) { work_ += work; }
  void FirstToken(double ttft, bool late);
  // At each tick, with the state: a step ends when it is over. Of an idle pool, steps may be longer.
  void Tick(conf::Duration since_begin, const ElasticSample& state);
  std::vector<ElasticSample> Take() { return std::move(samples_); }

 private:
  conf::Duration step_;
  conf::Duration begun_{};
  double work_ = 0;  // seconds of a replica
  uint32_t late_ = 0;
  std::vector<double> ttft_;
  std::vector<ElasticSample> samples_;
};

}  // namespace router::sim
