// The bound of the logs of all runs together, so that the output of many runs does not fill the disk. The
// wrapper of a run bounds the run's own log as it writes (wrapper/protocol.h).
//
// Blocks: off the loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"

namespace plugins::launchers {

struct KeptLog {
  std::string path{};       // its older part is RotatedLog(path)
  bool runs = false;        // the run may write more
  conf::TimePoint since{};  // of its end, where it has ended
};

// Removes output until at most `most` bytes are left: of runs that have ended, the oldest end first, and
// after those the older parts of logs of runs that still run, the largest first. The last part of a run that
// still runs stays, so more may be left. A log that was removed holds one line that says so. Returns the
// bytes that are left.
uint64_t TrimLogs(const std::vector<KeptLog>& logs, uint64_t most);

}  // namespace plugins::launchers
