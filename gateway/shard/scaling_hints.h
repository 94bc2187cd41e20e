// ScalingHints: what requests learn from the control loop about a model with a scaling policy: the capacity of one
// replica, from which a request's work is estimated, and the reason if no replica serves.
//
// One per model name that ever had a policy; it outlives reloads. The control loop writes it, and every shard reads it.
// The numbers are atomics, read one by one. The reason is under a lock; only requests whose wait failed read it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "scheduler/autoscale/capacity.h"

namespace gateway {

class ScalingHints {
 public:
  using Capacity = scheduler::autoscale::Capacity;

  void SetCapacity(const Capacity& capacity);
  Capacity capacity() const;

  // `why`: why no replica could be started; empty: no problem is known.
  void SetWhyNone(std::string why);
  std::string why_none() const;

 private:
  std::atomic<double> prefill_token_{0};
  std::atomic<double> step_base_{0};
  std::atomic<double> step_sequence_{0};
  std::atomic<double> context_token_{0};
  std::atomic<double> max_running_{1};
  std::atomic<double> kv_tokens_{1};
  mutable std::mutex mutex_;
  std::string why_none_;
};

// Thread-safe.
class ScalingHintsByModel {
 public:
  std::shared_ptr<ScalingHints> Get(const std::string& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ScalingHints>> by_model_;
};

}  // namespace gateway
