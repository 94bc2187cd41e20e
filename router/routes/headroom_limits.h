// When a replica is so full that the next request should wait at the gateway; load/headroom.h applies it.
#pragma once

#include "conf/time.h"

namespace router {

struct HeadroomLimits {
  // Prefill work that a replica may hold, the new request's own included.
  conf::Duration busy_for = std::chrono::milliseconds(500);
  double max_running = 0;  // requests; 0: as many as the engine says it runs
  // Between two tokens of an answer: a spare request goes only where they come this fast. Zero: anywhere.
  conf::Duration spare_token_time{};
};

}  // namespace router
