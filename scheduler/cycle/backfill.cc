#include "scheduler/cycle/backfill.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace scheduler {

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

std::optional<Reservation> Reserve(Trial& trial, GangPlacer& gangs, Placer& placer, JobIndex job,
                                   const JobEntry& entry, conf::Duration run, conf::TimePoint now,
                                   conf::TimePoint not_before, const std::vector<Release>& releases,
                                   Reservations& others, const NodeSet* zone) {
  const Trial::Mark before = trial.mark();
  Rng rng = OwnRng(entry.job);
  std::optional<Reservation> found;

  const auto try_at = [&](conf::TimePoint start) {
    if (!gangs.MightFit(entry)) return;
    const Trial::Mark mark = trial.mark();
    const NodeSet* keep_off = others.KeepOff(start, start + run);
    std::optional<NodeSet> both;
    if (zone != nullptr && keep_off != nullptr) {
      both = *zone;
      both->AddAll(*keep_off);
    }
    if (zone != nullptr) keep_off = both ? &*both : zone;
    GangResult result = gangs.Place(trial, placer, job, entry, keep_off, rng);
    trial.Rollback(mark);
    if (result.placed.empty()) return;
    found = Reservation{.job = job, .start = start, .end = start + run, .nodes = {}};
    for (const MemberAt& member : result.placed) found->nodes.push_back(member.holding.node);
    std::ranges::sort(found->nodes);
    const auto repeated = std::ranges::unique(found->nodes);
    found->nodes.erase(repeated.begin(), repeated.end());
  };

  // Moments at which something may become possible: a job ends, or an earlier reservation does.
  std::vector<conf::TimePoint> ends;
  for (const Reservation& other : others.all()) ends.push_back(std::max(other.end, not_before));
  std::ranges::sort(ends);
  size_t next_end = 0;
  size_t next = 0;
  conf::TimePoint at = std::max(now, not_before);
  while (true) {
    while (next < releases.size() && releases[next].at <= at) trial.EvictJob(releases[next++].job);
    while (next_end < ends.size() && ends[next_end] <= at) ++next_end;
    try_at(at);
    if (found) break;
    const bool more_releases = next < releases.size();
    const bool more_ends = next_end < ends.size();
    if (!more_releases && !more_ends) break;
    at = std::min(more_releases ? releases[next].at : conf::TimePoint::max(),
                  more_ends ? ends[next_end] : conf::TimePoint::max());
  }
  trial.Rollback(before);
  return found;
}

}  // namespace scheduler
