// Work that only fills what is idle, such as replicas that run for lines of batches: every other job may stop it, whatever
// its queue deserves and whether or not jobs may stop each other. It stops none itself, but fillers of lower priority.
#pragma once

#include <cstdint>

#include "scheduler/work.h"

namespace scheduler {

// Its priority, or less.
inline constexpr int32_t kFillerPriority = -1;

inline bool IsFiller(const Job& job) {
  return job.preemptible && job.priority <= kFillerPriority;
}

}  // namespace scheduler
