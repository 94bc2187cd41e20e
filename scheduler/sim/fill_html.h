// The HTML page of how much of a cluster each placement fills (until_allocated.h): the allocation at ten loads
// first; folded behind it the counts and a plot. One file without external resources.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace scheduler::sim {

// Means over the seeds.
struct FilledCluster {
  std::string name{};               // of the placement, or of the what-if
  std::vector<double> allocated{};  // percent of all devices, by whole percent of load, from 0
  double arrived = 0;               // members
  double refused = 0;
};

// The loads of tables, in percent of the devices.
inline constexpr uint32_t kLoadsShown[] = {50, 70, 80, 90, 95, 100, 105, 110, 120, 130};

// The allocation at this load, or at the last one that was reached.
double AllocatedAt(const FilledCluster& filled, uint32_t load_percent);

struct FillFacts {
  std::string trace{};  // a path
  size_t members = 0;   // of the trace
  size_t nodes = 0;
  size_t devices = 0;
  uint32_t seeds = 1;
  std::string what_if{};  // empty: none
};

// `filled` is not empty.
std::string AsHtml(const FillFacts& facts, std::span<const FilledCluster> filled);

}  // namespace scheduler::sim
