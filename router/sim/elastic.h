// A pool that an autoscaler sizes, in virtual time: recorded requests behind the production router, its
// admission queue and the autoscaler that production runs (scheduler/autoscale), on engine models that have
// to start before they serve, drain before they stop, and are paid for all the while.
//
// Requests are held at the gateway while no replica has room; those that cannot have a first token in time
// any more wait behind those that can, and who has been held for as long as the policy says is refused. At
// each tick the autoscaler hears what arrived, what is held, which first tokens came and who is where, and
// what it decides is done. A replica takes `cold_start` from its launch until it is ready; one that drains
// takes no new requests, and stops when its last one is done. What a request will take of a replica is
// reckoned from its prompt, from the answers so far and from the part of prompts that the engines' caches
// held so far.
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
#include "router/sim/world.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/engine/model.h"

namespace router::sim {

struct ElasticOptions {
  scheduler::engine::Profile engine;
  scheduler::autoscale::ScalingPolicy policy;
  conf::Duration cold_start = std::chrono::seconds(90);
  uint32_t initial = 0;         // replicas that are ready at the begin
  conf::TimePoint begins_at{};  // for schedules
  // By second since the begin: so many replicas, whatever the policy's law would say; the last one stays.
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
  uint64_t refused = 0;  // waited too long, or could not be served at all
  Quantiles wait;        // seconds at the gateway, of those that were held
  double longest_wait = 0;
  Quantiles ttft;            // seconds
  Quantiles token_time;      // seconds between tokens, mean of each request
  double ttft_attained = 0;  // share of all requests, those refused included
  double tokens_attained = 0;
  double attained = 0;         // both
  double replica_seconds = 0;  // from launch to stop
  double mean_replicas = 0;
  uint32_t most_replicas = 0;
  uint32_t launches = 0;
  uint32_t ups = 0;  // ticks at which there were to be more
  uint32_t downs = 0;
  uint32_t flaps = 0;       // ups within five minutes of a down
  uint32_t taken_back = 0;  // replicas that drained and serve again
  uint32_t failed_starts = 0;
  double seconds = 0;
  std::vector<ElasticSample> samples;
};

// `keep_going` is told now and then how many requests have arrived; false ends the simulation, whose report
// then is of no use.
ElasticReport SimulateElastic(const ElasticOptions& options, std::span<const Request> requests,
                              const std::function<bool(size_t arrived)>& keep_going = {});

}  // namespace router::sim
