#include "gateway/request/estimate_demand.h"

#include <algorithm>

#include "gateway/shard/shard.h"

namespace gateway {
namespace {

constexpr double kMostWork = 86'400e9;  // nanoseconds, of one request

}  // namespace

RequestDemand EstimateDemand(const Exchange& x) {
  ShardMetrics& metrics = x.shard.metrics;
  RequestDemand ask{.of_class = &metrics.of_class(x.runtime->names(), x.model_id, x.Band()),
                    .prompt_tokens = static_cast<uint64_t>(x.body.prompt_tokens)};
  if (!x.model().hints) return ask;
  const scheduler::autoscale::Capacity capacity = x.model().hints->capacity();
  const auto prompt = static_cast<double>(x.body.prompt_tokens);
  const double uncached = prompt - static_cast<double>(x.model().estimate->Cached(x.body.prompt_tokens));
  const auto [output, written] = x.MeanOutput();
  const double seconds = scheduler::autoscale::WorkOf(capacity, uncached, prompt, output, written);
  ask.model = &metrics.model(x.runtime->names(), x.model_id).demand;
  ask.work_ns = static_cast<uint64_t>(std::clamp(seconds * 1e9, 0.0, kMostWork));
  ask.ttft = x.model().policy->scaling.ttft;
  ask.hopeless = uncached * capacity.prefill_token > conf::ToSeconds(ask.ttft);
  return ask;
}

}  // namespace gateway
