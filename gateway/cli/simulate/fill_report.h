// What `tidegate simulate fill` prints: a table for people, JSON with stable keys. Pure.
#pragma once

#include <span>
#include <string>

#include "scheduler/sim/fill_html.h"

namespace gateway::cli {

std::string AsTable(const scheduler::sim::FillFacts& facts,
                    std::span<const scheduler::sim::FilledCluster> filled);
std::string AsJson(const scheduler::sim::FillFacts& facts,
                   std::span<const scheduler::sim::FilledCluster> filled);

}  // namespace gateway::cli
