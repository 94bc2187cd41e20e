#include "gateway/shard/computed_prompts.h"

#include <utility>

namespace gateway {

bool ComputedPrompts::HasRoomFor(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool room = queue_.size() < kMaxPrompts && bytes_ + bytes <= kMaxBytes;
  if (!room) ++dropped_;
  return room;
}

void ComputedPrompts::Add(ComputedPrompt prompt) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kMaxPrompts || bytes_ + prompt.Cost() > kMaxBytes) {
      ++dropped_;
      return;
    }
    first = queue_.empty();
    bytes_ += prompt.Cost();
    queue_.push_back(std::move(prompt));
  }
  if (first) on_first();
}

std::optional<ComputedPrompt> ComputedPrompts::Take() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return std::nullopt;
  ComputedPrompt prompt = std::move(queue_.front());
  queue_.pop_front();
  bytes_ -= prompt.Cost();
  return prompt;
}

uint64_t ComputedPrompts::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace gateway
