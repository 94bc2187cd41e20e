// The autoscaler's laws on traffic that they were not tuned on: each case of cross_cases.h with replicas that take 15
// to 300 s to start, beside kpa and hpa with several targets, a fixed size, and an oracle that pays its cold starts.
//
// Each law has one number that an operator may set: a target of requests in flight, or the attainment. It is chosen
// on every second case and judged on the others, and the other way round.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/autoscaling/cross_cases.h"

namespace bench::autoscaling {

struct CrossCell {
  double met = 0;        // share of first tokens within 2 s, of all requests
  double cost = 0;       // replica-seconds
  double of_oracle = 0;  // cost, of the oracle's
  uint32_t flaps = 0;
  uint64_t refused = 0;
  double longest_wait = 0;  // seconds
};

// One law with one setting: a cell for each cold start and case.
struct CrossRun {
  std::string law;
  double setting = 0;
  std::vector<std::vector<CrossCell>> of;  // by cold start, by case; an empty one was not run
};

struct CrossStudy {
  std::vector<int> cold_starts;  // seconds
  std::vector<std::vector<CrossCell>> oracle;
  std::vector<CrossRun> demand;  // settings other than 99 % with 90 s only
  std::vector<CrossRun> kpa;
  std::vector<CrossRun> hpa;
  std::vector<CrossCell> fixed;  // the fewest replicas that hold the objective, by case
};

struct CrossOptions {
  bool quick = false;
  bool only_demand = false;  // neither the other laws nor an oracle: to try a change
};

CrossStudy RunCross(std::span<const CrossCase> cases, const CrossOptions& options);

void PrintCross(std::span<const CrossCase> cases, const CrossStudy& study);
nlohmann::json ToJson(std::span<const CrossCase> cases, const CrossStudy& study);

}  // namespace bench::autoscaling
