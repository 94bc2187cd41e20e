#include "scheduler/cycle/backfill.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/cycle/outlook.h"

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
                                   Reservations& others, const NodeSet* zone, conf::TimePoint before) {
  const auto try_at = [&](conf::TimePoint start) -> std::optional<Reservation> {
    const Trial::Mark mark = trial.mark();
    const NodeSet* keep_off = others.KeepOff(start, start + run);
    std::optional<NodeSet> both;
    if (zone != nullptr && keep_off != nullptr) {
      both = *zone;
      both->AddAll(*keep_off);
    }
    if (zone != nullptr) keep_off = both ? &*both : zone;
    Rng rng = OwnRng(entry.job);
    const GangResult result = gangs.Place(trial, placer, job, entry, keep_off, rng);
    trial.Rollback(mark);
    if (result.placed.empty()) return std::nullopt;
    Reservation found{.job = job, .start = start, .end = start + run, .nodes = {}};
    for (const MemberAt& member : result.placed) found.nodes.push_back(member.holding.node);
    std::ranges::sort(found.nodes);
    const auto repeated = std::ranges::unique(found.nodes);
    found.nodes.erase(repeated.begin(), repeated.end());
    return found;
  };

  const Trial::Mark present = trial.mark();
  Outlook outlook(trial.state(), placer.shapes(),
                  {.entry = entry, .run = run, .from = std::max(now, not_before), .zone = zone}, releases,
                  others.all());
  std::optional<Reservation> found;
  size_t next = 0;
  while (!found) {
    const std::optional<conf::TimePoint> at = outlook.Next(before);
    if (!at) break;
    while (next < releases.size() && releases[next].at <= *at) trial.EvictJob(releases[next++].job);
    found = try_at(*at);
  }
  trial.Rollback(present);
  return found;
}

}  // namespace scheduler
