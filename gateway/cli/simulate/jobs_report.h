// What `tidegate simulate jobs` prints: tables for people, JSON with stable keys, a CSV of the time series. Pure.
#pragma once

#include <string>
#include <vector>

#include "scheduler/sim/report.h"

namespace gateway::cli {

using scheduler::sim::PolicyRuns;
using scheduler::sim::RunFacts;

// With more than one seed: mean and standard deviation.
std::string AsTables(const RunFacts& facts, const std::vector<PolicyRuns>& runs);
std::string AsJson(const RunFacts& facts, const std::vector<PolicyRuns>& runs);

// The time series: a row for each policy, seed and sample.
std::string AsCsv(const std::vector<PolicyRuns>& runs);

}  // namespace gateway::cli
