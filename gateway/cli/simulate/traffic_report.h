// What `tidegate simulate traffic` prints: a table for people, JSON with stable keys. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "router/sim/scaling_html.h"

namespace gateway::cli {

struct TrafficFacts {
  router::sim::StudyFacts study;
  conf::Duration inter_token{};
  uint32_t members = 1;      // of a replica
  uint32_t engine_gpus = 1;  // of the engine's preset
  size_t rows = 0;
  size_t left_out = 0;
};

std::string AsTable(const TrafficFacts& facts, const std::vector<router::sim::SizedBy>& rows);
std::string AsJson(const TrafficFacts& facts, const std::vector<router::sim::SizedBy>& rows);

}  // namespace gateway::cli
