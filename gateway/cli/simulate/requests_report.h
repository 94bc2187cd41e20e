// What `tidegate simulate requests` prints: a table for people, JSON with stable keys. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "router/sim/requests_html.h"

namespace gateway::cli {

struct RequestsFacts {
  router::sim::PoolFacts pool;
  size_t rows = 0;
  size_t left_out = 0;
  uint32_t adapters = 0;  // LoRA
  std::optional<double> utilization{};
};

// Below the table it says why requests were lost.
std::string AsTable(const RequestsFacts& facts, const std::vector<router::sim::PolicyReport>& runs);
std::string AsJson(const RequestsFacts& facts, const std::vector<router::sim::PolicyReport>& runs);

}  // namespace gateway::cli
