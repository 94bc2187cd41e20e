// ModelSwitch: whether a model takes new requests. One per model name; it outlives reloads. The control loop writes it,
// and every shard reads it. The reason is under a lock; only refused requests read it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gateway {

class ModelSwitch {
 public:
  // `why`: the reason that callers of refused requests get; may be empty.
  void Pause(std::string why);
  void Resume() { paused_.store(false, std::memory_order_relaxed); }
  bool paused() const { return paused_.load(std::memory_order_relaxed); }
  std::string why() const;

 private:
  std::atomic<bool> paused_{false};
  mutable std::mutex mutex_;
  std::string why_;
};

// Thread-safe.
class ModelSwitches {
 public:
  std::shared_ptr<ModelSwitch> Get(const std::string& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ModelSwitch>> by_model_;
};

}  // namespace gateway
