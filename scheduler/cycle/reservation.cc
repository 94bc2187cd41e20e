#include "scheduler/cycle/reservation.h"

#include <algorithm>
#include <tuple>

namespace scheduler {

std::vector<NodeId> NodesOf(const std::vector<MemberAt>& members) {
  std::vector<NodeId> nodes;
  nodes.reserve(members.size());
  for (const MemberAt& member : members) nodes.push_back(member.holding.node);
  std::ranges::sort(nodes);
  const auto repeated = std::ranges::unique(nodes);
  nodes.erase(repeated.begin(), repeated.end());
  return nodes;
}

void SortReleases(std::vector<Release>& releases) {
  std::ranges::sort(releases, {}, [](const Release& r) { return std::tuple(r.at, r.sequence); });
}

const NodeSet* Reservations::KeepOff(conf::TimePoint from, conf::TimePoint to) {
  bool any = false;
  for (const Reservation& reservation : all_) {
    if (reservation.start >= to || reservation.end <= from) continue;
    if (!any) kept_off_.Clear();
    any = true;
    for (const NodeId node : reservation.nodes) kept_off_.Add(node);
  }
  return any ? &kept_off_ : nullptr;
}

conf::TimePoint Reservations::LastStartBefore(conf::TimePoint to) const {
  conf::TimePoint last = conf::TimePoint::min();
  for (const Reservation& reservation : all_) {
    if (reservation.start < to) last = std::max(last, reservation.start);
  }
  return last;
}

}  // namespace scheduler
