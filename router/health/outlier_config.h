// When a replica counts as an outlier of its pool; outlier_detection.h applies it. One per model.
#pragma once

#include "conf/time.h"

namespace router {

struct OutlierConfig {
  conf::Duration hung_after = std::chrono::seconds(30);  // shortest silence that counts as a hang; 0: never
  double slow_factor = 4;                                // ejects above this multiple of the median; 0: never
  conf::Duration slow_for = std::chrono::seconds(30);    // how long a replica must be that slow
  conf::Duration eject = std::chrono::seconds(30);       // first ejection; each further one is twice as long
  conf::Duration max_eject = std::chrono::minutes(10);
  conf::Duration slow_start = std::chrono::seconds(30);  // of new and returning replicas; 0: none

  friend bool operator==(const OutlierConfig&, const OutlierConfig&) = default;
};

}  // namespace router
