// The parts of a placement policy: how good a node is for a member, which of its devices the member gets, and
// which of equally good nodes it goes to.
//
// policies.cc has the list of policies.
#pragma once

#include <cstdint>
#include <string_view>

#include "scheduler/placement/demand_mix.h"
#include "scheduler/placement/fragmentation_table.h"
#include "scheduler/placement/waste_table.h"
#include "scheduler/state/node_state.h"

namespace scheduler {

// Tables that a policy's `prepare` computes once for a cluster and a mix: what its scores look up.
struct PolicyTables {
  double largest_cpu = 1;    // milli, of one node
  double largest_milli = 1;  // of the devices of one node
  FragmentationTable fragmentation{};
  WasteTable waste{};
};
using Prepare = PolicyTables (*)(const Cluster&, const DemandMix&);

struct ScoreInput {
  const Shape& shape;
  const NodeState& state;  // before
  const TypeView& view;
  const Cluster& cluster;
  const DemandMix& mix;
  const PolicyTables& tables;
  uint64_t draw = 0;  // random, for devices that are drawn: another number for each decision
};

// Higher is better; called only where the shape fits. Any finite number, the same for equal input.
using Score = double (*)(const ScoreInput&);

// Which devices the member gets, as a mask (one bit for a share or a partition); `start` for a partition.
struct DeviceChoice {
  uint32_t devices = 0;
  uint8_t start = 0;
};
using ChooseDevices = DeviceChoice (*)(const ScoreInput&);

// Which of the nodes with the best score.
enum class TieBreak : uint8_t {
  kRandom,
  kFullestLeaf,  // in the leaf group with the least free, so that whole groups stay free
  kEmptiestLeaf,
  kFixedOrder,  // always the first of one random order of the nodes: ties fill the same nodes up
};

struct PlacementPolicy {
  std::string_view name;
  std::string_view what;  // for people, one line
  Score score;
  ChooseDevices devices;
  TieBreak tie_break;
  Prepare prepare;
  bool needs_sizes = false;  // uses NodeState::sizes: the state must distinguish sizes
};

}  // namespace scheduler
