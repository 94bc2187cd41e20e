// A pool over time, in steps of equal length: what arrived, what it was estimated to need, which replicas
// there were, and how soon first tokens came.
#pragma once

#include <cstdint>
#include <vector>

#include "conf/time.h"

namespace router::sim {

// The state at the end of a step, and what happened in it.
struct ElasticSample {
  double second = 0;  // since the start
  double work = 0;    // replicas that the arrivals of the step keep busy
  double demand = 0;  // replicas that the law, or the plan, asks for
  uint32_t ready = 0;
  uint32_t coming = 0;
  uint32_t draining = 0;
  uint32_t held = 0;          // requests
  uint32_t first_tokens = 0;  // in the step
  uint32_t late = 0;          // of these
  double ttft_p50 = 0;        // seconds; 0: no first token in the step
  double ttft_p99 = 0;

  uint32_t replicas() const { return ready + coming + draining; }  // that cost replica-seconds
};

class ElasticSeries {
 public:
  // A step of zero records nothing.
  explicit ElasticSeries(conf::Duration step) : step_(step) {}

  void Arrived(double work) { work_ += work; }
  void FirstToken(double ttft, bool late);
  // Call at each tick. Ends a step when its time is over; steps of an idle pool may be longer.
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
