// Three models on the devices of two: replicas that sleep, beside stop and cold start, beside replicas that are always
// awake on a device each. A day of Azure's conversations for each model, with the production autoscaler, law of sleep,
// planner and router.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "router/sim/fleet.h"

namespace bench::autoscaling {

struct SleepRun {
  std::string name;
  router::sim::FleetReport report;
  uint32_t devices = 0;

  uint64_t requests() const;
  double in_time() const;        // share of all requests with a first token within 2 s: a refused one is late
  double worst_in_time() const;  // of the model that has the lowest
  double in_time_of_served() const;  // share of those that were not refused
  double device_hours() const;       // held by replicas
  double ttft_p99() const;           // the highest of the three
  double ttft_p50() const;           // likewise
  uint64_t lost() const;
  uint32_t cold_starts() const;
  uint32_t wakes() const;
};

// One size of model, with its timings.
struct SleepCase {
  std::string traffic;
  std::string engine;
  double cold_start_s = 0;
  double wake_s = 0;    // level 1
  double reload_s = 0;  // level 2
  double busiest = 0;   // replicas that the three keep busy together in their busiest ten minutes
  std::vector<SleepRun> runs;
};

struct SleepOptions {
  std::string traces;
  bool quick = false;
};

// Nothing, and why on standard error, when a trace cannot be read.
std::optional<std::vector<SleepCase>> RunSleeping(const SleepOptions& options);

void PrintSleeping(const std::vector<SleepCase>& cases);
nlohmann::json ToJson(const std::vector<SleepCase>& cases);

}  // namespace bench::autoscaling
