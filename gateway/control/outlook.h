// Outlook: what requests may know of a model whose replicas are started and stopped by demand: what one of
// them can do, by which a request's work is reckoned, and why none serves, where none does.
//
// One for each model that ever had a policy, by name; it outlives reloads. Written by the control loop, read
// by every shard: numbers without a lock, each for itself; the reason with one, by who gave up waiting.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "scheduler/autoscale/capacity.h"

namespace gateway::control {

class Outlook {
 public:
  using Capacity = scheduler::autoscale::Capacity;

  void SetCapacity(const Capacity& capacity);
  Capacity capacity() const;

  // Empty: nothing is wrong.
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
class Outlooks {
 public:
  std::shared_ptr<Outlook> Get(const std::string& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Outlook>> by_model_;
};

}  // namespace gateway::control
