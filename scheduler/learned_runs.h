// Learned run times: how long jobs of a class have run so far, as a planner learned it (queues/run_history.h):
// plain values, so that a snapshot holds them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/work.h"

namespace scheduler {

// A class of jobs with similar run times. An empty text and 0 mean any.
struct RunClass {
  WorkClass work = WorkClass::kTraining;
  uint8_t stated = 0;  // 1 + the binary logarithm of the seconds that the job states; 0: it states nothing
  uint8_t size = 0;    // 1 + the number of binary digits of its devices
  std::string tenant{};
  std::string user{};
  std::string application{};

  friend auto operator<=>(const RunClass&, const RunClass&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const RunClass& c) {
    return H::combine(std::move(hash), c.work, c.stated, c.size, c.tenant, c.user, c.application);
  }
};

// Sums in which an older run counts less.
struct RunSums {
  double runs = 0;
  double seconds = 0;
  double squares = 0;  // of seconds

  friend bool operator==(const RunSums&, const RunSums&) = default;
};

struct RunsOfClass {
  RunClass of;
  RunSums sums;

  friend bool operator==(const RunsOfClass&, const RunsOfClass&) = default;
};

using LearnedRuns = std::vector<RunsOfClass>;  // in order of class

}  // namespace scheduler
