// What is tried: a pool, a load and what goes wrong, under every policy.
//
// A load is a share of what the pool could do if it found what one cache as large as all of its own would
// hold, and always decoded full batches: replica-seconds asked for over replica-seconds there. No routing
// gets there, so that every policy is past its best at 97 %.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace bench::policies {

struct Scenario {
  std::string name;
  uint32_t replicas = 8;
  double load = 0.85;
  conf::Duration telemetry_age{0};
  bool mixed = false;  // every second replica at half the rate
  std::vector<router::sim::Fault> faults = {};
  double whole = 0;  // share of the answers that are not streamed
};

std::span<const std::string_view> ComparedPolicies();

// The whole table; the last ones only where they say something new. `quick`: two of them.
std::vector<Scenario> Scenarios(bool quick);

struct Result {
  Scenario scenario;
  double bound = 0;  // hit ratio of one cache as large as all
  double speed_up = 0;
  std::vector<router::sim::Report> reports;  // in the order of ComparedPolicies
};

// Runs all of it on so many threads; the results do not depend on how many.
std::vector<Result> RunAll(std::span<const Scenario> scenarios,
                           const std::vector<router::sim::Request>& trace,
                           const scheduler::engine::Profile& profile, unsigned threads);

// Replica-seconds of one replica with `profile` that the requests ask for, a share `hits` of the prompts'
// tokens being cached.
double DemandSeconds(std::span<const router::sim::Request> requests,
                     const scheduler::engine::Profile& profile, double hits);

}  // namespace bench::policies
