// The one clock of the process: wall time when it was first asked, plus steady time since, so that it never
// steps back. Any thread.
#pragma once

#include <ctime>

#include "conf/time.h"

namespace gateway::net {

namespace detail {
inline int64_t ReadClock(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
inline const int64_t kWallOffset = ReadClock(CLOCK_REALTIME) - ReadClock(CLOCK_MONOTONIC);
}  // namespace detail

inline conf::TimePoint Now() {
  return conf::TimePoint(conf::Duration(detail::kWallOffset + detail::ReadClock(CLOCK_MONOTONIC)));
}

}  // namespace gateway::net
