#include "scheduler/cycle/backfill.h"

#include <algorithm>

#include "scheduler/cycle/availability_profile.h"

namespace scheduler {

std::optional<Reservation> FindReservation(Trial& trial, GangPlacer& gangs, Placer& placer,
                                           const ReservationQuery& query,
                                           const std::vector<Release>& releases, Reservations& others) {
  const auto try_at = [&](conf::TimePoint start) -> std::optional<Reservation> {
    const Trial::Mark mark = trial.mark();
    const NodeSet* keep_off = others.KeepOff(start, start + query.run);
    std::optional<NodeSet> both;
    if (query.keep_off != nullptr && keep_off != nullptr) {
      both = *query.keep_off;
      both->AddAll(*keep_off);
    }
    if (query.keep_off != nullptr) keep_off = both ? &*both : query.keep_off;
    Rng rng = OwnRng(query.entry.job);
    const GangResult result = gangs.Place(trial, placer, query.job, query.entry, keep_off, rng);
    trial.Rollback(mark);
    if (result.placed.empty()) return std::nullopt;
    return Reservation{
        .job = query.job, .start = start, .end = start + query.run, .nodes = NodesOf(result.placed)};
  };

  const Trial::Mark present = trial.mark();
  AvailabilityProfile profile(trial.state(), placer.shapes(),
                              {.entry = query.entry,
                               .run = query.run,
                               .from = std::max(query.now, query.not_before),
                               .keep_off = query.keep_off},
                              releases, others.all());
  std::optional<Reservation> found;
  size_t next = 0;
  std::vector<JobIndex> ended;
  while (!found) {
    const std::optional<conf::TimePoint> at = profile.Next(query.before);
    if (!at) break;
    ended.clear();
    for (; next < releases.size() && releases[next].at <= *at; ++next) ended.push_back(releases[next].job);
    trial.EvictJobs(ended);
    found = try_at(*at);
  }
  trial.Rollback(present);
  return found;
}

}  // namespace scheduler
