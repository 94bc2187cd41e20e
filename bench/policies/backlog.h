// A backlog of batch lines beside recorded traffic: what the lines cost the others, and how much of what is idle
// they use.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace bench::policies {

struct BacklogResult {
  double load = 0;  // of the others, as router/sim/offered_load.h has it
  uint32_t replicas = 0;
  router::sim::Report without;    // the others alone
  router::sim::Report beside;     // with the backlog
  router::sim::Report in_a_band;  // with the lines as requests of a less urgent band
  double lines_alone = 0;         // tokens per second of the pool for nothing but lines

  // Tokens of lines over what the pool would compute of lines in the time that the others leave.
  double UsedOfIdle(const router::sim::Report& report) const;
};

// `token_time`: lines go where tokens come this fast; zero: anywhere. Lines have the lengths of the trace's requests, in another order. The results do not depend on `threads`.
std::vector<BacklogResult> RunBacklog(const std::vector<router::sim::Request>& trace,
                                      const scheduler::engine::Profile& profile, conf::Duration token_time,
                                      bool quick, unsigned threads);

void PrintBacklog(std::span<const BacklogResult> results);
nlohmann::json ToJson(const BacklogResult& result);

}  // namespace bench::policies
