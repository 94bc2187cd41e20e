// The figures of a cluster at one moment: how full and how fragmented it is; what each queue deserves, holds, lends and
// waits for; and what each tenant's jobs hold. The formulas are those of metrics.h, as in the simulator.
//
// Pure; plain values. A call takes time in proportion to nodes, members and jobs: some 100 µs for 256 nodes of eight
// devices with 1,000 jobs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"
#include "scheduler/planner.h"

namespace scheduler {

inline constexpr size_t kHealthWords = 4;  // of Health

// Devices are counted in milli.
struct KindFigures {
  std::string kind{};
  int64_t held = 0;    // on any node
  int64_t free = 0;    // of healthy devices on nodes that may take work
  int64_t unused = 0;  // neither held nor free: faulty, or on a node that takes no work
};

struct QueueFigures {
  std::string name{};
  std::string parent{};          // empty: none
  int64_t deserved = 0;          // devices in milli, like the next five
  int64_t share = 0;             // its fair share, as of the last cycle
  int64_t used = 0;              // held by its jobs and those of the queues below it
  int64_t asked = 0;             // by jobs that run or wait
  int64_t borrowed = 0;          // used above what it deserves
  int64_t lent = 0;              // deserved, not used, and used by its neighbours
  uint32_t running = 0;          // jobs
  uint32_t waiting = 0;          // likewise
  conf::Duration oldest_wait{};  // of those
};

struct TenantFigures {
  std::string tenant{};
  int64_t held = 0;  // devices in milli, by its jobs
  uint32_t running = 0;
  uint32_t waiting = 0;
};

struct ClusterFigures {
  double gar = 0;                              // AllocationRate
  double gfr = 0;                              // FragmentationRate
  double fragmentation = 0;                    // FragmentedShare under the demand so far
  int64_t capacity = 0;                        // of healthy devices, in milli
  int64_t held = 0;                            // of those
  int64_t waiting = 0;                         // devices that waiting jobs ask for, in milli
  std::array<uint32_t, kHealthWords> nodes{};  // by health
  std::vector<KindFigures> kinds{};
  std::vector<QueueFigures> queues{};    // in the order of the configuration
  std::vector<TenantFigures> tenants{};  // with jobs, by name
};

// `now` must not be before the planner's last event.
ClusterFigures FiguresOf(const Planner& planner, conf::TimePoint now);

// What each of several neighbouring queues lends: the part of its unused deserved devices that the others use beyond
// what they deserve. Where less is borrowed than is unused, all lend the same part.
std::vector<int64_t> LentBy(const std::vector<Standing>& neighbours);

}  // namespace scheduler
