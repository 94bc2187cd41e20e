// Defragmentation: empties nodes that are partly used, so that whole nodes are free for gangs.
//
// In each partition of nodes, the node with the least to move is emptied first: all of its members must find
// room on other partly used nodes, never on an empty one. If a member finds none, another member may make
// room for it, up to `depth` of them in a row. The other one moves in this round and the member in a later
// round, since every member starts at its new place before it leaves the old one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/placement/placer.h"
#include "scheduler/policy.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

struct Relocation {
  JobIndex job = 0;
  Member from;
  Holding to;
};

class Defragmenter {
 public:
  using Movable = std::function<bool(const Member&)>;
  using PlacerOf = std::function<Placer&(JobIndex)>;
  using KeepOff = std::function<const NodeSet*(JobIndex)>;  // may give null

  Defragmenter(const JobTable& jobs, const DefragmentPolicy& policy, Movable movable, PlacerOf placer,
               KeepOff keep_off);

  // Moves for one round, at most max_moves. In the trial each moved member holds its new place beside its old
  // one.
  std::vector<Relocation> Round(Trial& trial, Rng& rng);

 private:
  void Partition(Trial& trial, std::span<const NodeId> nodes, Rng& rng);
  bool Empty(Trial& trial, NodeId source, std::span<const NodeId> nodes, Rng& rng);
  std::optional<Holding> RoomFor(const Member& member, Rng& rng);
  bool MakeRoom(Trial& trial, const Member& member, std::span<const NodeId> nodes, uint32_t depth, Rng& rng);
  void Move(Trial& trial, const Member& member, const Holding& to);
  // A member moves once in a round: it still holds its old place, and its new place must stay.
  bool MayMove(const Member& member) const;

  const JobTable* jobs_;
  const DefragmentPolicy* policy_;
  Movable movable_;
  PlacerOf placer_;
  KeepOff keep_off_;
  NodeSet closed_{0};     // empty nodes, those outside of the partition, and the one to be emptied
  NodeSet forbidden_{0};  // scratch
  std::vector<Relocation> moves_;
};

}  // namespace scheduler
