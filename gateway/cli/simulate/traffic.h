// tidegate simulate --traffic: recorded inference traffic on replicas that an autoscaler starts and stops, by
// a scaling policy beside the laws that others use, in virtual time.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/cli/simulate/recorded_traffic.h"

namespace gateway::cli {

struct TrafficOptions {
  TrafficSource source;  // without a path this mode is off
  uint32_t copies = 1;
  std::string loop;
  std::string cold_start = "90s";
  std::string starts_at = "1970-01-01";
  std::vector<std::string> beside = {"kpa", "hpa", "fixed", "oracle"};
  // The options of `tidegate simulate --requests`.
  std::string engine;
  double speed_up = 1;
  // The options of `tidegate simulate`.
  std::string policy;
  std::string html;
};

// Adds the options of --traffic, after AddRequestsOptions, with which it shares some; returns --traffic
// itself, and in `own` the names of all options that it uses.
CLI::Option* AddTrafficOptions(CLI::App& command, TrafficOptions& options, std::vector<std::string>& own);

// The exit code.
int SimulateTraffic(const TrafficOptions& options);

}  // namespace gateway::cli
