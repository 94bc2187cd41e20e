#include "scheduler/autoscale/capacity.h"

#include <algorithm>

namespace scheduler::autoscale {

Capacity CapacityOf(const engine::Profile& profile) {
  return {.prefill_token = profile.per_prefill_token.count() * 1e-9,
          .step_base = profile.step_base.count() * 1e-9,
          .step_sequence = profile.step_per_sequence.count() * 1e-9,
          .context_token = profile.per_context_token.count() * 1e-9,
          .max_running = static_cast<double>(profile.max_running),
          .kv_tokens = static_cast<double>(profile.kv_blocks) * profile.block_size};
}

double WorkOf(const Capacity& c, double uncached, double prompt, double output) {
  const double tokens = prompt + output;
  const double of_step = std::max(1 / c.max_running, tokens / c.kv_tokens);
  return uncached * c.prefill_token +
         output * (c.step_sequence + c.context_token * tokens + c.step_base * of_step);
}

}  // namespace scheduler::autoscale
