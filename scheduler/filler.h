// Fillers: work that only fills idle devices, such as replicas for lines of batches. Every other job may stop a filler,
// whatever its queue deserves, even where preemption is off. A filler itself stops only fillers of lower priority.
#pragma once

#include <cstdint>

#include "scheduler/work.h"

namespace scheduler {

// The priority of fillers, or less.
inline constexpr int32_t kFillerPriority = -1;

inline bool IsFiller(const Job& job) {
  return job.preemptible && job.priority <= kFillerPriority;
}

}  // namespace scheduler
