// What no placement can do better than, on openb's protocol (scheduler/sim/until_allocated.h): the most that
// could be allocated of what has arrived, by one who knows all of it and may refuse what he likes.
//
// A linear relaxation. Work of equal asks is one class, of which any part may go to a node type that can hold
// one of it; CPU, memory and devices are pooled over all nodes of a type; devices that are shared are filled
// by patterns, the multisets of shares that fit on one device, since it is there that work does not pair off.
// What asks for no device is left out. Solved by Clp, each time from where the last one ended.
//
// The reading at n percent is a mean over arrivals (see there), of which the bound only grows: it is taken at
// the end of each tenth of them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>

#include "bench/scheduling/openb_data.h"
#include "scheduler/model.h"
#include "scheduler/work.h"

namespace bench::scheduling {

// In percent of all devices, a mean over `seeds` orders of arrival from `first_seed` on: those that the
// policies got. An error if the shares have too many combinations.
absl::StatusOr<Reading> OfflineBoundOf(const scheduler::Cluster& cluster,
                                       std::span<const scheduler::Ask> asks, uint64_t first_seed,
                                       uint32_t seeds);

}  // namespace bench::scheduling
