// A scaled model, as people and metrics see it: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/control/replicas/replica_status.h"

namespace gateway::control {

// The load of one class of a model's requests (ClassCells).
struct ClassStatus {
  std::string name;          // of the band
  uint64_t came = 0;         // requests, since the start; ...
  uint64_t refused = 0;      // because the queue was full
  uint64_t in_time = 0;      // first tokens within slo.ttft
  uint64_t late = 0;         // after it
  uint64_t hopeless = 0;     // the prompt alone takes an idle replica longer
  uint64_t at_replicas = 0;  // requests, now; ...
  uint64_t waiting = 0;
  uint64_t waiting_tokens = 0;  // of their prompts
  conf::Duration oldest{};      // age of the oldest waiting request
};

struct ModelStatus {
  std::string model;
  std::string policy;  // the file
  std::string_view law;
  uint32_t min = 0;
  uint32_t max = 0;
  double demand = 0;  // replicas
  uint32_t wanted = 0;
  std::string why;       // the reason for `wanted`
  std::string capacity;  // how the capacity was estimated
  double in_flight = 0;  // requests
  double held = 0;
  double headroom = 0;               // of the law `demand`, for late first tokens: a part of demand
  conf::Duration lead_time{};        // until the next replica would serve; zero: no start was measured
  std::vector<ClassStatus> classes;  // the most urgent first
  uint32_t replicas[kReplicaStates] = {};
  uint32_t failures = 0;                        // of starts, in a row
  std::optional<conf::TimePoint> next_start{};  // not earlier, because of the failures
  std::string trouble;                          // why there are fewer replicas than wanted; empty: no problem
};

// The last starts of a model's replicas on a kind, or the last times that they woke.
struct ColdStart {
  std::string model;
  std::string kind;
  size_t starts = 0;
  conf::Duration p50{};
  conf::Duration p90{};
};

}  // namespace gateway::control
