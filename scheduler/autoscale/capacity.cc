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

double MostInTime(const Capacity& capacity, double context, conf::Duration inter_token) {
  const double each = capacity.step_sequence + capacity.context_token * context;
  const double most = (conf::ToSeconds(inter_token) - capacity.step_base) / std::max(each, 1e-12);
  return std::max(std::min(most, capacity.max_running), 1.0);
}

double WorkOf(const Capacity& c, double uncached, double prompt, double output) {
  return WorkOf(c, uncached, prompt, output, output / 2);
}

double WorkOf(const Capacity& c, double uncached, double prompt, double output, double written) {
  const double context = prompt + written;
  const double of_step = std::max(1 / c.max_running, context / c.kv_tokens);
  return uncached * c.prefill_token +
         output * (c.step_sequence + c.context_token * context + c.step_base * of_step);
}

void AnswerSizes::Add(double output) {
  if (!(output > 0)) return;
  const double weight = std::max(kLeastWeight, 1 / ++count_);
  mean_ += weight * (output - mean_);
  square_ += weight * (output * output - square_);
}

}  // namespace scheduler::autoscale
