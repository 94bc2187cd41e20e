// The report of a simulation as one HTML page: ten figures first; folded behind them all others, and plots over
// time, by size and by queue.
//
// The page needs no network and no other file: it contains style, plots and a few lines of script, which show the
// values under the pointer and sort tables; without the script it is complete, too. Strings are escaped. Series are
// thinned, heat maps and the number of queues are bounded, so the page's size is bounded: below 1 MB for two policies,
// however long the trace.
#pragma once

#include <span>
#include <string>

#include "scheduler/sim/report.h"

namespace scheduler::sim {

// Plots are of the first seed; the table is of all of them. `runs` holds at least one policy.
std::string AsHtml(const RunFacts& facts, std::span<const PolicyRuns> runs);

}  // namespace scheduler::sim
