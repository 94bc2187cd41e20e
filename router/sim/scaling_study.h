// Ways to size a pool beside one another: what runs against a policy in `tidegate simulate --traffic` and in
// bench/scaling.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "router/sim/elastic.h"

namespace router::sim {

// As many clients: each request is sent `copies` times, from its time up to `spread` later.
std::vector<Request> Copied(std::span<const Request> requests, uint32_t copies, conf::Duration spread,
                            uint64_t seed);
// The requests again and again, for so long.
std::vector<Request> Looped(std::span<const Request> requests, conf::Duration length);

// Requests in flight on one replica that is busy for this part of its time with such requests: what an
// operator would find by trying, and give kpa and hpa as their target.
double InFlightAt(double utilization, std::span<const Request> requests,
                  const scheduler::engine::Profile& engine, double hits);

// Replicas to begin with: those that the first five minutes keep busy for 0.8 of their time, so that the
// simulation does not begin with a cold start that a pool in operation would not have had.
uint32_t InitialFor(std::span<const Request> requests, const scheduler::engine::Profile& engine, double hits,
                    const scheduler::autoscale::ScalingPolicy& policy);

// A way to size the pool, and what came of it.
struct SizedBy {
  std::string name;
  ElasticReport report;
};

struct Oracle {
  ElasticReport report;
  std::vector<uint32_t> plan;
  double utilization = 0;
};

// Who knows the trace, and whose replicas are there at once: of plans that keep replicas busy to one part of
// their time, in buckets of 10 to 60 s, the one with the fewest replica-seconds of those that attain the
// policy's `attainment` of first tokens; when none does, the one that attains most. Nothing when
// `keep_going` says so.
std::optional<Oracle> FindOracle(const ElasticOptions& options, std::span<const Request> requests,
                                 double hits, const std::function<bool(size_t)>& keep_going = {});

}  // namespace router::sim
