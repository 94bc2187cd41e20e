#include "gateway/admin/clock_offset.h"

#include <chrono>

#include "gateway/net/clock.h"

namespace gateway::admin {

conf::Duration ClockOffset() {
  return net::Now() - std::chrono::time_point_cast<conf::Duration>(std::chrono::system_clock::now());
}

}  // namespace gateway::admin
