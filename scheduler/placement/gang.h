// Places the members of one job together, or none of them.
//
// Members that communicate are placed near each other: on the lowest level of the fabric (a node, a leaf, …)
// with a domain that holds them all, in the tightest such domain, and below it on the fewest children,
// largest first. A required level bounds the domain; a preferred level only says that nearness matters. This
// holds for jobs with a topology, and for gangs of eight or more devices or members (E-Binpack's rule). Other
// members are placed one by one by the policy: small gangs, replicas and array tasks, jobs that spread, and
// all work under a policy that spreads.
//
// Roles are placed in order of size, largest first. All members of a role use the first alternative of
// devices that holds them all; if there is none, each node uses the first alternative that fits there.
// Elastic jobs get as many members as fit, from their minimum up, below one domain of the required level.
// Members that a running job lacks are placed as near to the others as possible.
//
// Exact for jobs of one role: the job is refused only if no domain has the slots. (With power budgets, a job that asks
// for partitions or shares may also be refused if the first choice of nodes draws too much.) With several roles, all
// domains of the top level are tried, and a few on the levels below it.
//
// A pinned job gets its own places or none.
//
// Keeps scratch memory between calls; one thread.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "scheduler/placement/placer.h"
#include "scheduler/placement/spreader.h"
#include "scheduler/placement/topology.h"
#include "scheduler/plan.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

struct GangResult {
  std::vector<MemberAt> placed;  // by role and rank; empty: it does not fit
  uint32_t short_by = 0;         // members below the minimum, when it does not fit
};

class GangPlacer {
 public:
  // `arrays`: a job that spreads avoids the members of its array; may be null.
  GangPlacer(ClusterState& state, const ShapeTable& shapes, const RunningArrays* arrays = nullptr);

  // Tries to place the members of `entry` that hold nothing yet. On success they are assigned in `trial`;
  // otherwise the trial is unchanged. `except` may be null.
  GangResult Place(Trial& trial, Placer& placer, JobIndex job, const JobEntry& entry, const NodeSet* except,
                   Rng& rng);

  // A necessary condition, from counters in constant time: false means that the job cannot fit now.
  bool MightFit(const JobEntry& entry) const;

 private:
  // The missing members of one role.
  struct Need {
    uint16_t role = 0;
    uint32_t least = 0;
    uint32_t wanted = 0;
    uint32_t placed = 0;
    uint32_t next_rank = 0;
    size_t taken_at = 0;                 // its part of taken_
    std::span<const ShapeId> shapes{};   // in order of preference
    std::span<const ShapeId> allowed{};  // in this round
  };
  struct Call;
  struct Candidate {
    uint32_t slots = 0;
    Placer::Suitability suits{};  // of nodes
    int64_t free_milli = 0;
    uint32_t id = 0;  // a node or a domain
  };

  // Fills needs_, largest role first, and the present members of the job; false: no node can take one of the
  // roles.
  bool Gather(Call& call);
  GangResult PlacePinned(Trial& trial, JobIndex job, const JobEntry& entry, const NodeSet* except) const;
  uint32_t SlotsByCounters(const Shape& shape) const;
  bool FitsByCounters(Call& call) const;
  bool GoesOneByOne(const Call& call) const;
  void AllowAlternative(size_t round);
  void ForbidNodes(Call& call);

  bool OneByOne(Call& call, DomainId under);
  const std::set<JobIndex>* Beside(const Call& call) const;
  uint32_t Spread(Call& call, Need& need, DomainId under, uint32_t members);
  uint32_t Follow(Call& call, Need& need, DomainId under, uint32_t members);
  bool SpreadBelowOne(Call& call);
  bool Together(Call& call);
  void CountAll(Call& call);
  bool SearchNodes(Call& call, bool elastic);
  bool SearchLevel(Call& call, uint8_t level, bool elastic);
  bool IsOpen(const Call& call, DomainId domain) const;
  bool IsTop(const Call& call, DomainId domain) const;
  bool TryNode(Call& call, NodeId node, bool elastic);
  bool TryDomain(Call& call, DomainId domain, bool elastic);
  bool Put(Call& call, Need& need, SlotTree& tree, DomainId domain, uint32_t members);
  void Assign(Call& call, Need& need, const Holding& holding);
  void TakeBack(Call& call);

  ClusterState* state_;
  const ShapeTable* shapes_;
  const RunningArrays* arrays_;
  std::vector<Need> needs_;
  std::vector<uint8_t> taken_;   // ranks that hold something, role after role
  std::vector<SlotTree> trees_;  // per need, of the state before the call
  SlotTree below_;               // below a domain that is tried, of the state then
  Spreader spreader_;
  NodeSet forbidden_;  // for anti-affinity: `except` and the nodes that the job holds
  std::vector<NodeShare> shares_;
  std::vector<Candidate> candidates_;
};

}  // namespace scheduler
