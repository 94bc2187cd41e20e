// Reservations: nodes that are kept for a waiting job, from its expected start to its expected end.
//
// A job that overtakes it must have ended by the start or keep off those nodes. A nomination is a reservation
// of exact places that other jobs are leaving for the waiting one.
#pragma once

#include <cstdint>
#include <vector>

#include "conf/time.h"
#include "scheduler/holding.h"
#include "scheduler/placement/node_set.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

struct Reservation {
  JobIndex job = kNone;
  conf::TimePoint start{};
  conf::TimePoint end{};
  std::vector<NodeId> nodes;        // ascending
  std::vector<MemberAt> members{};  // exact places, if other jobs are stopped for it

  bool is_nomination() const { return !members.empty(); }
};

// The nodes on which the members stand, each once, ascending.
std::vector<NodeId> NodesOf(const std::vector<MemberAt>& members);

// One job's expected end, for reservations.
struct Release {
  conf::TimePoint at{};
  uint64_t sequence = 0;
  JobIndex job = kNone;
};

// By time, then by order of submission.
void SortReleases(std::vector<Release>& releases);

// The reservations of a cycle.
class Reservations {
 public:
  explicit Reservations(size_t nodes) : kept_off_(nodes) {}

  void Add(Reservation reservation) { all_.push_back(std::move(reservation)); }
  const std::vector<Reservation>& all() const { return all_; }
  bool empty() const { return all_.empty(); }
  void Truncate(size_t size) { all_.resize(size); }

  // The nodes that a job running over [from, to) must keep off; null: none. Good until the next call.
  const NodeSet* KeepOff(conf::TimePoint from, conf::TimePoint to);
  // The last start before `to`: a job that has ended by then has fewer nodes to keep off than one that ends
  // at `to`.
  conf::TimePoint LastStartBefore(conf::TimePoint to) const;

 private:
  std::vector<Reservation> all_;
  NodeSet kept_off_;
};

}  // namespace scheduler
