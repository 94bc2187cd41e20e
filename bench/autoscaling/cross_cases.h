// Traffic on which no law was tuned by hand: every ServeGen client of a folder and its subfolders, recorded traces,
// and worlds that are made up, each scaled to between 1 and 30 replicas of one of three engines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace bench::autoscaling {

enum class Origin : uint8_t { kClient, kTrace, kWorld };

struct CrossCase {
  std::string name;
  Origin origin = Origin::kWorld;
  bool bursty = false;  // short bursts of short answers, idle minutes between them
  std::string preset;
  scheduler::engine::Profile engine;
  double hits = 0;  // share of prompt tokens that one cache as large as all would hold
  std::vector<router::sim::Request> requests;
};

// Two hours each (of Mooncake's traces one), or half an hour of every fourth. Nothing, and why on standard error, when a file cannot be read.
std::optional<std::vector<CrossCase>> LoadCrossCases(const std::string& traces, bool quick);

}  // namespace bench::autoscaling
