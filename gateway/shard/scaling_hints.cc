#include "gateway/shard/scaling_hints.h"

#include <utility>

namespace gateway {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

void ScalingHints::SetCapacity(const Capacity& capacity) {
  prefill_token_.store(capacity.prefill_token, kRelaxed);
  step_base_.store(capacity.step_base, kRelaxed);
  step_sequence_.store(capacity.step_sequence, kRelaxed);
  context_token_.store(capacity.context_token, kRelaxed);
  max_running_.store(capacity.max_running, kRelaxed);
  kv_tokens_.store(capacity.kv_tokens, kRelaxed);
}

ScalingHints::Capacity ScalingHints::capacity() const {
  return {.prefill_token = prefill_token_.load(kRelaxed),
          .step_base = step_base_.load(kRelaxed),
          .step_sequence = step_sequence_.load(kRelaxed),
          .context_token = context_token_.load(kRelaxed),
          .max_running = max_running_.load(kRelaxed),
          .kv_tokens = kv_tokens_.load(kRelaxed)};
}

void ScalingHints::SetWhyNone(std::string why) {
  const std::lock_guard lock(mutex_);
  why_none_ = std::move(why);
}

std::string ScalingHints::why_none() const {
  const std::lock_guard lock(mutex_);
  return why_none_;
}

std::shared_ptr<ScalingHints> ScalingHintsByModel::Get(const std::string& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ScalingHints>& hints = by_model_[model];
  if (!hints) hints = std::make_shared<ScalingHints>();
  return hints;
}

}  // namespace gateway
