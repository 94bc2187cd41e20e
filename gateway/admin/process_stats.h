// Memory, processor time and descriptors of this process. Read from /proc; what cannot be
// read is 0. Any thread.
#pragma once

#include <cstdint>

namespace gateway {

struct ProcessStats {
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  double cpu_seconds = 0;  // user and system, since the start
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
  uint64_t threads = 0;
  double start_time = 0;  // seconds since the Unix epoch
};

ProcessStats ReadProcessStats();

}  // namespace gateway
