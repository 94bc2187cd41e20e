// tidegate simulate --requests: recorded inference traffic on a pool of engine models, under one routing
// policy beside another, in virtual time.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/cli/simulate/recorded_traffic.h"

namespace gateway::cli {

struct RequestsOptions {
  TrafficSource source;  // without a path this mode is off
  uint32_t replicas = 8;
  uint32_t prefill = 0;  // of these, for long prompts alone
  bool queue = false;    // requests wait at the gateway while the replicas are full
  std::string engine = "llama-3.3-70b-4xh200";
  std::vector<std::string> slow;      // REPLICA@SPEED
  std::vector<std::string> policies;  // none: all
  std::optional<double> utilization;  // one of these two
  std::optional<double> speed_up;
  std::string telemetry_age = "0s";
  std::string telemetry_every = "0s";
  std::vector<std::string> die;   // REPLICA@TIME
  std::vector<std::string> hang;  // REPLICA@TIME
  uint32_t adapters = 0;          // LoRA
  uint32_t max_loras = 4;
  std::string lora_load = "500ms";
  std::string slo = "2s";
};

// Adds the options of --requests; returns --requests itself, and in `own` the names of all of them.
CLI::Option* AddRequestsOptions(CLI::App& command, RequestsOptions& options, std::vector<std::string>& own);

// The exit code.
int SimulateRequests(const RequestsOptions& options);

}  // namespace gateway::cli
