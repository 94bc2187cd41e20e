// Scores of a node for a member: named free functions, the parts of policies. Higher is better.
#pragma once

#include "scheduler/placement/placement_policy.h"

namespace scheduler {

double LeastDevicesLeft(const ScoreInput& input);  // binpack
// e-binpack: the same, but devices of one link domain outweigh four idle devices on a node in use.
double LeastDevicesLeftLinked(const ScoreInput& input);
double MostDevicesLeft(const ScoreInput& input);  // spread

// As published with FGD: whole numbers, so that the order of ties matters much. CPU and devices are shares of
// the largest node's.
double DotProduct(const ScoreInput& input);      // the ask points where the node has little left
double LeastLeftAfter(const ScoreInput& input);  // best-fit: CPU and devices alike
// gpu-packing: shares onto used devices, then devices of used nodes, then of free nodes.
double UsedDevicesFirst(const ScoreInput& input);
// gpu-clustering: beside members of its own size, then on empty nodes; needs NodeState::sizes.
double AmongItsOwnSize(const ScoreInput& input);

double NoScore(const ScoreInput& input);  // all nodes are equal: random

}  // namespace scheduler
