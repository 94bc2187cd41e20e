#include "router/sim/scaling_study.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "router/sim/plan_knowing.h"
#include "scheduler/autoscale/capacity.h"
#include "scheduler/rng.h"

namespace router::sim {
namespace {

namespace autoscale = scheduler::autoscale;

constexpr std::array<uint32_t, 3> kBuckets = {10, 30, 120};  // seconds
constexpr int kSteps = 5;                                    // of the search for each
constexpr double kLeastBusy = 0.4;
constexpr double kMostBusy = 1.2;
constexpr double kInitialBusy = 0.8;
constexpr conf::Duration kFirst = std::chrono::minutes(5);

}  // namespace

std::vector<Request> Copied(std::span<const Request> requests, uint32_t copies, conf::Duration spread,
                            uint64_t seed) {
  std::vector<std::pair<conf::Duration, size_t>> sent;  // when, and which
  sent.reserve(requests.size() * copies);
  scheduler::Rng rng(seed);
  for (size_t i = 0; i < requests.size(); ++i) {
    sent.emplace_back(requests[i].at, i);
    for (uint32_t copy = 1; copy < copies; ++copy) {
      const auto later = rng.Uniform(static_cast<uint64_t>(spread.count()));
      sent.emplace_back(requests[i].at + conf::Duration(static_cast<int64_t>(later)), i);
    }
  }
  std::ranges::sort(sent);
  std::vector<Request> all;
  all.reserve(sent.size());
  for (const auto& [at, which] : sent) {
    all.push_back(requests[which]);
    all.back().at = at;
  }
  return all;
}

std::vector<Request> Looped(std::span<const Request> requests, conf::Duration length) {
  std::vector<Request> all;
  if (requests.empty()) return all;
  const conf::Duration period = requests.back().at + conf::Duration(std::chrono::seconds(1));
  for (conf::Duration begin{}; begin < length; begin += period) {
    for (const Request& request : requests) {
      if (begin + request.at >= length) return all;
      all.push_back(request);
      all.back().at += begin;
    }
  }
  return all;
}

double InFlightAt(double utilization, std::span<const Request> requests,
                  const scheduler::engine::Profile& engine, double hits) {
  if (requests.empty()) return 1;
  const autoscale::Capacity c = autoscale::CapacityOf(engine);
  double prompt = 0;
  double output = 0;
  for (const Request& request : requests) {
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  prompt /= static_cast<double>(requests.size());
  output /= static_cast<double>(requests.size());
  const double rate = utilization / autoscale::WorkOf(c, prompt * (1 - hits), prompt, output);
  const double prefill = prompt * (1 - hits) * c.prefill_token;
  // Little's law over decoding, whose steps take longer the more decode, and stop while prompts are computed.
  const double alone = c.step_base / std::max(0.05, 1 - rate * prefill);
  const double shared = c.step_sequence + c.context_token * (prompt + output);
  const double decoding = rate * output * alone / std::max(0.05, 1 - rate * output * shared);
  return std::clamp(decoding + rate * prefill, 1.0, c.max_running);
}

uint32_t InitialFor(std::span<const Request> requests, const scheduler::engine::Profile& engine, double hits,
                    const autoscale::ScalingPolicy& policy) {
  size_t first = 0;
  while (first < requests.size() && requests[first].at < kFirst) ++first;
  const auto bucket = static_cast<uint32_t>(kFirst / std::chrono::seconds(1));
  const std::vector<uint32_t> plan =
      PlanKnowing(requests.first(first), engine, hits, kInitialBusy, bucket, policy.max);
  const uint32_t least = std::max(policy.min, 1u);
  return plan.empty() ? policy.min : std::clamp(plan.front(), std::min(least, policy.max), policy.max);
}

std::optional<Oracle> FindOracle(const ElasticOptions& options, std::span<const Request> requests,
                                 double hits, const std::function<bool(size_t)>& keep_going) {
  std::optional<Oracle> best;
  bool interrupted = false;
  const auto better = [&](const ElasticReport& a, const ElasticReport& b) {
    const double wanted = options.policy.attainment;
    const bool holds = a.ttft_attained >= wanted;
    if (holds != (b.ttft_attained >= wanted)) return holds;
    return holds ? a.replica_seconds < b.replica_seconds : a.ttft_attained > b.ttft_attained;
  };
  for (const uint32_t bucket : kBuckets) {
    double low = kLeastBusy;
    double high = kMostBusy;
    for (int step = 0; step < kSteps && !interrupted; ++step) {
      const double utilization = (low + high) / 2;
      ElasticOptions with = options;
      with.cold_start = {};
      with.plan = PlanKnowing(requests, options.engine, hits, utilization, bucket, options.policy.max);
      with.initial = with.plan.empty() ? 1 : with.plan.front();
      ElasticReport report = SimulateElastic(with, requests, [&](size_t arrived) {
        if (keep_going && !keep_going(arrived)) interrupted = true;
        return !interrupted;
      });
      (report.ttft_attained >= options.policy.attainment ? low : high) = utilization;
      if (!best || better(report, best->report)) {
        best = Oracle{.report = report, .plan = std::move(with.plan), .utilization = utilization};
      }
    }
  }
  if (interrupted) return std::nullopt;
  return best;
}

}  // namespace router::sim
