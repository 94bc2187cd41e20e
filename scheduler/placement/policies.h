// The placement policies by name.
//
// policies.cc has the only list. A policy consists of named free functions (scores.h, devices.h); the filters that
// apply to every policy are in filters.h.
#pragma once

#include <span>
#include <string_view>

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

std::span<const PlacementPolicy> PlacementPolicies();

// Null for a name that is not in the list.
const PlacementPolicy* FindPlacementPolicy(std::string_view name);

}  // namespace scheduler
