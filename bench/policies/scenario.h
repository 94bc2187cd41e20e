// What is tried: a pool, a load (router/sim/offered_load.h says what that is) and what goes wrong, under
// every policy.
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
  double whole = 0;       // share of the answers that are not streamed
  uint32_t adapters = 0;  // LoRA, among which the conversations are dealt out
  uint32_t slots = 0;     // of each replica, for those
  uint32_t prefills = 0;  // replicas that only compute prompts, for the others
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

// Runs everything on this many threads; the results do not depend on their number.
std::vector<Result> RunAll(std::span<const Scenario> scenarios,
                           const std::vector<router::sim::Request>& trace,
                           const scheduler::engine::Profile& profile, unsigned threads);

}  // namespace bench::policies
