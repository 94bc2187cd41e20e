// Compares ways to size a pool: the baselines of a policy in `tidegate simulate traffic` and in bench/scaling.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "router/sim/elastic.h"

namespace router::sim {

// Multiplies clients: each request is sent `copies` times, within `spread` after its time.
std::vector<Request> Copied(std::span<const Request> requests, uint32_t copies, conf::Duration spread,
                            uint64_t seed);
// Repeats the requests for `length`.
std::vector<Request> Looped(std::span<const Request> requests, conf::Duration length);

// Requests in flight on one replica at this utilization by such requests: the target that an operator would
// find by trial and give to the laws kpa and hpa.
double InFlightAt(double utilization, std::span<const Request> requests,
                  const scheduler::engine::Profile& engine, double hits);

// Replicas to begin with: those that the first five minutes keep 80 % busy, so that the simulation does not
// begin with a cold start that a running pool would not have.
uint32_t InitialFor(std::span<const Request> requests, const scheduler::engine::Profile& engine, double hits,
                    const scheduler::autoscale::ScalingPolicy& policy);

// A way to size the pool, and its result.
struct SizedBy {
  std::string name;
  ElasticReport report;
};

struct Oracle {
  ElasticReport report;
  std::vector<uint32_t> plan;
  double utilization = 0;
};

// An oracle that knows the trace and whose replicas start at once. Of plans with constant utilization in
// buckets of 10 to 120 s it takes the one with the fewest replica-seconds that attains the policy's
// `attainment` of first tokens, or the one that attains most when none does. Nothing when `keep_going`
// returns false.
std::optional<Oracle> FindOracle(const ElasticOptions& options, std::span<const Request> requests,
                                 double hits, const std::function<bool(size_t)>& keep_going = {});

}  // namespace router::sim
