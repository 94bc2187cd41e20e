#include "scheduler/cycle/planning_snapshot.h"

#include <algorithm>
#include <utility>

namespace scheduler {
namespace {

void RestoreJob(PlanningState& s, const JobState& job) {
  const JobIndex index = s.Add(job.job);
  JobEntry& entry = s.jobs[index];
  entry.done = job.done;
  entry.restarts = job.restarts;
  entry.moved = job.moved;
  entry.phase = job.phase;
  if (job.phase == Phase::kPending) return s.Wait(index);
  if (job.phase == Phase::kSuspended) {
    s.suspended.emplace(entry.sequence, index);
    return;
  }
  Trial trial(s.state);
  const auto assign = [&](const MemberAt& member) {
    trial.Assign({.job = index, .role = member.role, .rank = member.rank, .holding = member.holding});
  };
  for (const MemberAt& member : job.members) {
    assign(member);
    s.Charge(index, member.holding);
  }
  for (const MemberAt& member : job.leaving) assign(member);
  trial.Commit();
  entry.lost_members = job.lost_members;
  entry.leaving = job.leaving;
  s.Run(index, job.started);
  entry.phase = job.phase;
  entry.backfilled = job.backfilled;
  entry.checkpointed = job.checkpointed;
  entry.stops_at = job.stops_at;
  entry.after_stop = job.after_stop;
  entry.idle_since = job.idle_since;
}

}  // namespace

void Restore(PlanningState& s, const Snapshot& snapshot) {
  s.version = snapshot.version;
  s.now = snapshot.as_of;
  s.defragmented = snapshot.defragmented;
  s.moves = snapshot.moves;
  s.failed_for_good = snapshot.failed;
  for (const std::string& tenant : snapshot.tenants) s.shapes.TenantNumber(tenant);
  s.Learn(snapshot.demand);
  s.Learn(snapshot.runs);
  s.queues.RestoreUsage(snapshot.usage, snapshot.as_of);
  for (const JobState& job : snapshot.jobs) RestoreJob(s, job);
  for (NodeId n = 0; n < snapshot.health.size(); ++n) {
    const NodeHealth& health = snapshot.health[n];
    s.SetBrokenDevices(n, health.broken_devices);
    s.SetEmptied(n, health.emptied_devices);
    s.SetOthers(n, health.others);
    if (health.unmodelled_milliwatts != 0) s.state.SetUnmodelled(n, health.unmodelled_milliwatts);
    s.SetHealth(n, health.health);
    if (!health.faults.empty()) s.faults[n] = health.faults;
  }
  s.UpdateCapacity();
  for (const Reserved& reserved : snapshot.reserved) {
    const JobIndex job = s.jobs.Find(reserved.job);
    if (job == kNone) continue;
    s.reservations.push_back({job, reserved.start, reserved.end, reserved.nodes, reserved.members});
  }
}

Snapshot TakeSnapshot(const PlanningState& s) {
  Snapshot snapshot;
  snapshot.version = s.version;
  snapshot.as_of = s.now;
  snapshot.cluster = s.state.cluster();
  for (KindId kind = 0; kind < snapshot.cluster.kinds.size(); ++kind) {
    snapshot.cluster.kinds[kind].idle_watts = s.state.kind_watts(kind).idle;
    snapshot.cluster.kinds[kind].busy_watts = s.state.kind_watts(kind).busy;
  }
  snapshot.queues = s.queue_list;
  snapshot.usage = s.queues.ExportUsage();
  snapshot.failed = s.failed_for_good;
  snapshot.defragmented = s.defragmented;
  snapshot.moves = s.moves;
  snapshot.tenants = s.shapes.tenants();
  snapshot.demand = s.learner.state();
  snapshot.runs = s.runs.state();
  for (const Reservation& r : s.reservations) {
    snapshot.reserved.push_back({s.jobs[r.job].job.id, r.start, r.end, r.nodes, r.members});
  }
  for (NodeId n = 0; n < snapshot.cluster.nodes.size(); ++n) {
    NodeHealth health{.health = s.state.health(n),
                      .others = s.state.others(n),
                      .unmodelled_milliwatts = s.state.unmodelled(n)};
    if (const auto at = s.broken_devices.find(n); at != s.broken_devices.end())
      health.broken_devices = at->second;
    if (const auto at = s.emptied_devices.find(n); at != s.emptied_devices.end())
      health.emptied_devices = at->second;
    if (const auto at = s.faults.find(n); at != s.faults.end()) health.faults = at->second;
    snapshot.health.push_back(std::move(health));
  }
  std::vector<JobIndex> order;
  for (JobIndex job = 0; job < s.jobs.bound(); ++job) {
    if (s.jobs[job].alive) order.push_back(job);
  }
  std::ranges::sort(order, {}, [&](JobIndex job) { return s.jobs[job].sequence; });
  for (const JobIndex job : order) {
    const JobEntry& entry = s.jobs[job];
    snapshot.jobs.push_back({.job = entry.job,
                             .phase = entry.phase,
                             .members = s.MembersOf(job),
                             .started = entry.started,
                             .checkpointed = entry.checkpointed,
                             .stops_at = entry.stops_at,
                             .after_stop = entry.after_stop,
                             .idle_since = entry.idle_since,
                             .lost_members = entry.lost_members,
                             .backfilled = entry.backfilled,
                             .leaving = entry.leaving,
                             .moved = entry.moved,
                             .done = entry.done,
                             .restarts = entry.restarts});
  }
  return snapshot;
}

}  // namespace scheduler
