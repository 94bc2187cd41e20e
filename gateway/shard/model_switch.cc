#include "gateway/shard/model_switch.h"

#include <utility>

namespace gateway {

void ModelSwitch::Pause(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    why_ = std::move(why);
  }
  paused_.store(true, std::memory_order_relaxed);
}

std::string ModelSwitch::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

std::shared_ptr<ModelSwitch> ModelSwitches::Get(const std::string& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ModelSwitch>& made = by_model_[model];
  if (!made) made = std::make_shared<ModelSwitch>();
  return made;
}

}  // namespace gateway
