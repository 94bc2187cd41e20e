// The placement policies by name.
//
// policies.cc has the one list. A policy is made of named free functions (scores.h, devices.h); filters,
// which no policy can leave out, are in filters.h.
#pragma once

#include <span>
#include <string_view>

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

std::span<const PlacementPolicy> PlacementPolicies();

// Null for a name that is not in the list.
const PlacementPolicy* FindPlacementPolicy(std::string_view name);

}  // namespace scheduler
