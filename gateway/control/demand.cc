#include "gateway/control/demand.h"

#include <algorithm>

#include "gateway/exchange.h"
#include "gateway/shard.h"

namespace gateway::control {
namespace {

constexpr double kMostWork = 86'400e9;  // of one request, ns

}  // namespace

Ask AskOf(const Exchange& x) {
  ShardMetrics& metrics = x.shard.metrics;
  Ask ask{.of_class = &metrics.of_class(*x.runtime, x.model_id, x.model().config->queue.BandOf(x.Priority())),
          .prompt_tokens = static_cast<uint64_t>(x.prompt_tokens_est)};
  if (!x.model().outlook) return ask;
  const scheduler::autoscale::Capacity capacity = x.model().outlook->capacity();
  const auto prompt = static_cast<double>(x.prompt_tokens_est);
  const double uncached = prompt - static_cast<double>(x.model().estimate->Cached(x.prompt_tokens_est));
  const auto [output, written] = x.MeanOutput();
  const double seconds = scheduler::autoscale::WorkOf(capacity, uncached, prompt, output, written);
  ask.model = &metrics.model(*x.runtime, x.model_id).demand;
  ask.work_ns = static_cast<uint64_t>(std::clamp(seconds * 1e9, 0.0, kMostWork));
  ask.ttft = x.model().policy->scaling.ttft;
  ask.hopeless = uncached * capacity.prefill_token > conf::ToSeconds(ask.ttft);
  return ask;
}

}  // namespace gateway::control
