// The HTML page of a pool under several routing policies: ten figures of each first; folded behind them the other
// figures, why requests were lost, and plots of first tokens. One file without external resources.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "router/sim/report.h"

namespace router::sim {

struct PolicyReport {
  std::string_view policy;
  Report report;
};

struct PoolFacts {
  std::string trace{};  // a path
  size_t requests = 0;
  double speed_up = 1;
  std::string engine{};
  uint32_t replicas = 0;
  uint32_t prefill = 0;  // of these
  bool queue = true;     // at the gateway
  conf::Duration slo{};  // for the first token
  double shared_cache_hit_ratio = 0;
};

// Why requests were lost and how many, without those that are zero: ("waited at the gateway for as long as a request
// may", 7).
std::vector<std::pair<std::string_view, uint64_t>> LostBecause(const LostRequests& lost);

// `policies` is not empty. Plots need reports with first tokens by time.
std::string AsHtml(const PoolFacts& facts, std::span<const PolicyReport> policies);

}  // namespace router::sim
