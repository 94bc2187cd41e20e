#include "router/sim/plan_knowing.h"

#include <algorithm>
#include <cmath>

#include "scheduler/autoscale/capacity.h"

namespace router::sim {

namespace autoscale = scheduler::autoscale;
namespace engine = scheduler::engine;

std::vector<uint32_t> PlanKnowing(std::span<const Request> requests, const engine::Profile& engine,
                                  double hits, double utilization, uint32_t bucket, uint32_t most) {
  if (requests.empty()) return {};
  const autoscale::Capacity c = autoscale::CapacityOf(engine);
  // Mean context and step time of a full batch of such requests.
  double tokens = 0;
  double contexts = 0;
  for (const Request& request : requests) {
    tokens += request.output_tokens;
    contexts += request.output_tokens * (request.prompt_tokens + request.output_tokens / 2.0);
  }
  const double context = contexts / tokens;
  const double batch = std::min(c.max_running, c.kv_tokens / context);
  const double step = c.step_base + batch * (c.step_sequence + c.context_token * context);

  const auto bucket_of = [&](conf::Duration at) {
    return static_cast<size_t>(at / std::chrono::seconds(bucket));
  };
  std::vector<double> work(bucket_of(requests.back().at) + 1, 0);
  for (const Request& request : requests) {
    work[bucket_of(request.at)] += request.prompt_tokens * (1 - hits) * c.prefill_token;
    // Decoding is spread over the time that the answer takes.
    const double each = c.step_sequence +
                        c.context_token * (request.prompt_tokens + request.output_tokens / 2.0) +
                        c.step_base / batch * (request.prompt_tokens + request.output_tokens / 2.0) / context;
    const double length = request.output_tokens * step;
    const size_t first = bucket_of(request.at);
    const size_t last = std::min(work.size() - 1, first + static_cast<size_t>(length / bucket));
    const double part = request.output_tokens * each / static_cast<double>(last - first + 1);
    for (size_t b = first; b <= last; ++b) work[b] += part;
  }
  std::vector<uint32_t> plan;
  plan.reserve(work.size() * bucket);
  for (size_t b = 0; b < work.size(); ++b) {
    const double next = b + 1 < work.size() ? work[b + 1] : 0;
    const double replicas = std::ceil(std::max(work[b], next) / bucket / utilization);
    plan.insert(plan.end(), bucket,
                static_cast<uint32_t>(std::clamp(replicas, 1.0, static_cast<double>(most))));
  }
  return plan;
}

}  // namespace router::sim
