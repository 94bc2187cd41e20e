// What PoolWatch (pool_watch.h) goes by, per model.
#pragma once

#include "conf/time.h"

namespace router {

struct WatchConfig {
  conf::Duration hung_after = std::chrono::seconds(30);  // of silence, at least; 0: nobody is taken to hang
  double slow_factor = 4;                                // times the pool's median; 0: nobody is ejected
  conf::Duration slow_for = std::chrono::seconds(30);    // for so long
  conf::Duration eject = std::chrono::seconds(30);       // doubles each time
  conf::Duration max_eject = std::chrono::minutes(10);
  conf::Duration slow_start = std::chrono::seconds(30);  // of new and returning replicas; 0: none

  friend bool operator==(const WatchConfig&, const WatchConfig&) = default;
};

}  // namespace router
