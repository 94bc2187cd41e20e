// Defragmentation: empties nodes that are partly used, so that whole nodes are free for gangs.
//
// Partition by partition, the node with the least to move goes first: all of its members must find room on
// other partly used nodes, never on an empty one. A member for which there is none may have another member
// make room for it first (up to `depth` of those in a row); that one moves in this round, it in a later one,
// since every member starts at its new place before it leaves the old.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/cycle/job_table.h"
#include "scheduler/placement/placer.h"
#include "scheduler/policy.h"

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
  // Once a round: neither its old place, which it still holds, nor its new one.
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
