// A pool that an autoscaler sizes, in virtual time: recorded requests behind the production router, its
// admission queue and the production autoscaler (scheduler/autoscale), on engine models that take time to
// start, drain before they stop, and cost replica-seconds all the while.
//
// Requests are held at the gateway while no replica has headroom. Those that can no longer have a first token
// in time wait behind those that can, and a request that was held for as long as the policy allows is
// refused. At each tick the autoscaler gets arrivals, held requests, first tokens and replica states, and its
// decision is applied. A replica is ready `cold_start` after its launch; a draining one takes no new requests
// and stops after its last one. The work of a request is estimated from its prompt, from the answers so far,
// and from the share of prompts that the engines' caches held so far.
//
// Pure: the same options and requests give the same report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/sim/elastic_series.h"
#include "router/sim/report.h"
#include "router/sim/world.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/engine/model.h"

namespace router::sim {

struct ElasticOptions {
  scheduler::engine::Profile engine;
  scheduler::autoscale::ScalingPolicy policy;
  conf::Duration cold_start = std::chrono::seconds(90);
  uint32_t initial = 0;         // replicas that are ready at the start
  conf::TimePoint begins_at{};  // for schedules
  // The number of replicas in each second since the start, instead of the policy's law; the last entry stays.
  // Empty: the law decides.
  std::vector<uint32_t> plan;
  conf::Duration sample_every{};                  // zero: no samples
  conf::Duration tick = std::chrono::seconds(1);  // of the autoscaler; the gateway's is 100 ms
  uint64_t seed = 1;
};

struct ElasticReport {
  uint64_t requests = 0;
  uint64_t finished = 0;
  uint64_t held = 0;     // waited at the gateway
  uint64_t refused = 0;  // lost.refused()
  LostRequests lost{};   // too_late, expired and engine_refused
  Quantiles wait;        // seconds at the gateway, of held requests
  double longest_wait = 0;
  Quantiles ttft;            // seconds
  Quantiles token_time;      // seconds between tokens, mean of each request
  double ttft_attained = 0;  // share of all requests, refused ones included
  double tokens_attained = 0;
  double attained = 0;         // both
  double replica_seconds = 0;  // from launch to stop
  double mean_replicas = 0;
  uint32_t most_replicas = 0;
  uint32_t launches = 0;
  uint32_t ups = 0;  // ticks that raised the number of replicas
  uint32_t downs = 0;
  uint32_t flaps = 0;       // ups within five minutes after a down
  uint32_t taken_back = 0;  // draining replicas that serve again
  uint32_t failed_starts = 0;
  double seconds = 0;
  std::vector<ElasticSample> samples;
};

// `keep_going` is called now and then with the number of requests that have arrived; when it returns false
// the simulation ends with a useless report.
ElasticReport SimulateElastic(const ElasticOptions& options, std::span<const Request> requests,
                              const std::function<bool(size_t arrived)>& keep_going = {});

}  // namespace router::sim
