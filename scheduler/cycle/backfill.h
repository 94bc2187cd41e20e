// Backfill: when and where a waiting job can start at the latest, so that others may overtake it without delaying it.
//
// Running jobs are assumed to end as expected; the job gets the nodes on which it then fits first. EASY backfill keeps
// one such reservation, conservative backfill many.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/cycle/reservation.h"
#include "scheduler/placement/gang.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

struct ReservationQuery {
  JobIndex job = kNone;
  const JobEntry& entry;
  conf::Duration run{};  // how long the job runs from its start
  conf::TimePoint now{};
  conf::TimePoint not_before{};
  const NodeSet* keep_off = nullptr;  // nodes that the job never gets; may be null
  conf::TimePoint before = conf::TimePoint::max();
};

// The job's earliest start beside the reservations of others. `releases` are in order; their jobs are evicted in the
// trial, which is rolled back at the end. Absent: the job does not start by `query.before`, or it would not even fit in
// the empty cluster.
std::optional<Reservation> FindReservation(Trial& trial, GangPlacer& gangs, Placer& placer,
                                           const ReservationQuery& query,
                                           const std::vector<Release>& releases, Reservations& others);

}  // namespace scheduler
