// A day of conversations beside a backlog of batch lines on one cluster: what the lines cost the conversations, and
// how much of what is idle they use. The production autoscaler, planner, router and law of replicas for batches.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "router/sim/fleet.h"

namespace bench::autoscaling {

struct FillRun {
  std::string name;
  router::sim::FleetReport report;
  double used_of_idle = 0;  // tokens of lines, over what the cluster would compute of lines in the time left

  const router::sim::Report& served() const { return report.models.front().served; }
  double LineTokens() const;
};

struct FillStudy {
  std::string engine;
  uint32_t places = 0;  // replicas that the cluster holds
  double load = 0;      // of all places, mean of the day
  double hours = 0;
  double lines_alone = 0;  // tokens per second of all places for nothing but lines
  std::vector<FillRun> runs{};
  double hours_of_backlog = 0;  // that 100,000 lines take beside the conversations
};

struct FillOptions {
  std::string traces;
  bool quick = false;
};

// Nothing, and why on standard error, when a trace cannot be read.
std::optional<FillStudy> RunFill(const FillOptions& options);

void PrintFill(const FillStudy& study);
nlohmann::json ToJson(const FillStudy& study);

}  // namespace bench::autoscaling
