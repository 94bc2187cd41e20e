// When a replica is full enough that the next request had better wait at the gateway.
#pragma once

#include "conf/time.h"

namespace router {

struct RoomSpec {
  conf::Duration busy_for =
      std::chrono::milliseconds(500);  // of prefill, a new request's own included; see HasRoom()
  double max_running = 0;              // requests; 0: what the engine can run
};

}  // namespace router
