// The HTML page of a study (scaling_study.h): ten figures of each way to size the pool; folded behind them the other
// figures, and plots of demand, capacity, replicas and first tokens over time. One file without external resources.
#pragma once

#include <span>
#include <string>

#include "router/sim/scaling_study.h"

namespace router::sim {

struct StudyFacts {
  std::string trace{};  // a path
  size_t requests = 0;
  std::string model{};
  std::string engine{};
  double gpus = 1;  // of a replica
  conf::Duration cold_start{};
  conf::Duration ttft{};  // within which a first token is in time
  double attainment = 0.99;
};

// The first is the policy that is studied. Reports must have samples.
std::string AsHtml(const StudyFacts& facts, std::span<const SizedBy> ways);

}  // namespace router::sim
