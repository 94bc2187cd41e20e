// The output of `tidegate simulate`: tables for people, JSON with stable keys, a CSV of the time series, a
// page with plots.
#pragma once

#include <string>
#include <vector>

#include "scheduler/io/loaded.h"
#include "scheduler/sim/report.h"

namespace gateway::cli {

using scheduler::sim::PolicyRuns;
using scheduler::sim::RunFacts;

// With more than one seed: mean and standard deviation.
std::string AsTables(const RunFacts& facts, const std::vector<PolicyRuns>& runs);
std::string AsJson(const RunFacts& facts, const std::vector<PolicyRuns>& runs);

// The time series: a row for each policy, seed and sample.
std::string AsCsv(const std::vector<PolicyRuns>& runs);

// Prints the skipped rows to standard error, the first ones each with its problem.
void PrintLeftOut(const scheduler::io::LineReport& report);

}  // namespace gateway::cli
