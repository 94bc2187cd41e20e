// Devices that are kept for the jobs of a tenant for a time, as queues of the planner.
//
// Each reservation is a queue of its own, which deserves its devices, lends none and borrows none. So that many devices
// of the kind stay free of other work, and the reservation's jobs may stop work of queues that hold more than they
// deserve (PreemptionPolicy::reclaim). Where the other queues deserve more than is then left, all of them get less in
// proportion. Which devices are reserved stays open until a job starts. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/queue.h"

namespace gateway::control {

struct ReservedDevices {
  std::string queue;   // its name: the grant's id
  std::string tenant;  // path; those below it may use them, too
  std::string kind;
  uint32_t count = 0;

  bool operator==(const ReservedDevices&) const = default;
};

// `configured`, or one queue for everything where there is none, beside a queue for each reservation. Kinds that the
// cluster does not have are left out.
std::vector<scheduler::Queue> WithReservations(std::vector<scheduler::Queue> configured,
                                               std::span<const ReservedDevices> reserved,
                                               const scheduler::Cluster& cluster);

}  // namespace gateway::control
