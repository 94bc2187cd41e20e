// BatchReplicas: how many replicas of a model run for lines of batches alone, beside those that the autoscaler
// wants. One starts when lines have found no room to spare for a while, where the policy allows it; all end
// when no line has been there for a while. They are the first that must make room. When the autoscaler wants one more
// replica it takes one of these, and one that it no longer needs becomes one of these while lines wait: nothing ends
// or starts on the same devices.
//
// Pure but for its own state. One owner.
#pragma once

#include <cstdint>
#include <string>

#include "conf/time.h"

namespace scheduler::autoscale {

// As an operator allows it, for a model.
struct BatchStarts {
  bool may_start = false;
  uint32_t max_replicas = 1;  // beside those of the autoscaler
};

class BatchReplicas {
 public:
  struct Seen {
    uint64_t lines = 0;            // waiting or at replicas, of all gateways
    conf::Duration oldest_wait{};  // of those that wait
    uint32_t there = 0;            // replicas for batches; those that are ending do not count
    uint32_t coming = 0;           // of these, not ready yet
  };
  struct Decision {
    bool start = false;  // one more
    bool end = false;    // all
    std::string why{};   // of either
  };
  // How many of the replicas that the autoscaler no longer needs stay for batches, rather than end while another one
  // starts for lines on the same devices.
  static uint32_t Keep(const BatchStarts& policy, const Seen& seen, uint32_t let_go);
  // How many of the replicas for batches that serve the autoscaler takes instead of `wanted` new ones: they are there
  // already, and a new one would only take their devices.
  static uint32_t Give(const Seen& seen, uint32_t wanted);
  Decision Tick(const BatchStarts& policy, const Seen& seen, conf::TimePoint now);

 private:
  conf::TimePoint last_line_{};
};

}  // namespace scheduler::autoscale
