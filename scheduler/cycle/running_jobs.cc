#include "scheduler/cycle/running_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "scheduler/cycle/defrag.h"

namespace scheduler {
namespace {

// Inference replicas, which others could replace, and jobs that resume from a checkpoint.
bool IsMovable(const JobEntry& entry) {
  return entry.phase == Phase::kRunning && entry.job.preemptible && entry.leaving.empty() &&
         !entry.lost_members &&
         (entry.job.work == WorkClass::kInference || entry.job.checkpoint.interval > conf::Duration::zero());
}

void RepairGang(PlanDraft& draft, ReservationBook& book, JobIndex job) {
  PlanningState& s = draft.state();
  JobEntry& entry = s.jobs[job];
  entry.lost_members = false;
  s.broken.erase({entry.sequence, job});
  if (entry.restarts > entry.job.restart_budget) {
    return draft.Stop(
        job, ActionKind::kStop, AfterStop::kLeaves, conf::Duration::zero(),
        {"restarts-used-up",
         fmt::format("a fault stopped members, and its {} restarts are used up", entry.job.restart_budget)});
  }
  const auto wait_again = [&](std::string why) {
    draft.Stop(job, ActionKind::kPreempt, AfterStop::kWaits, conf::Duration::zero(),
               {"node-failed", std::move(why)});
  };
  if (!s.policy.faults.hot_swap || entry.members == 1) {
    return wait_again("a fault stopped members; it starts again from its last checkpoint");
  }
  std::vector<MemberAt> placed = draft.PlaceMembers(job, book.KeepOffNominations(entry));
  if (s.MembersOf(job).size() < MinMembers(entry.job)) {  // those that leave do not count
    return wait_again("a fault stopped members, and there is no room to replace them");
  }
  entry.started = draft.now();
  entry.checkpointed = draft.now();
  if (placed.empty()) return;
  const size_t count = placed.size();
  draft.Start(
      job, std::move(placed),
      {"hot-swapped", fmt::format("{} {} what a fault stopped; the others continue",
                                  conf::Counted(count, "member"), count == 1 ? "replaces" : "replace")});
}

void MoveOffDrainingNodes(PlanDraft& draft, ReservationBook& book, JobIndex job) {
  PlanningState& s = draft.state();
  const JobEntry& entry = s.jobs[job];
  std::vector<MemberId> old;
  for (const MemberId id : s.state.of(job)) {
    if (s.state.health(s.state.member(id).holding.node) == Health::kDraining) old.push_back(id);
  }
  std::ranges::sort(
      old, {}, [&](MemberId id) { return std::tuple(s.state.member(id).role, s.state.member(id).rank); });
  // Taken out of the trial, so that the gang lacks exactly these members; then put back, since they hold their places
  // until the move is done.
  Trial& trial = draft.trial();
  const Trial::Mark mark = trial.mark();
  std::vector<Member> moved;
  for (const MemberId id : old) {
    moved.push_back(s.state.member(id));
    trial.Evict(id);
  }
  Rng draws = draft.rng();
  GangResult placed =
      s.gangs.Place(trial, s.PlacerFor(entry), job, entry, book.KeepOffNominations(entry), draws);
  if (placed.placed.size() != moved.size()) return trial.Rollback(mark);
  draft.rng() = draws;
  std::vector<MemberAt> from;
  std::vector<std::string> nodes;
  for (const Member& member : moved) {
    trial.Assign(member);
    from.push_back({member.role, member.rank, member.holding});
    nodes.push_back(s.state.cluster().nodes[member.holding.node].name);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  draft.Move(job, from, std::move(placed.placed),
             {"draining", fmt::format("leaves {}, which {}", fmt::join(nodes, " and "),
                                      nodes.size() == 1 ? "drains" : "drain")});
}

}  // namespace

void StopOverdueJobs(PlanDraft& draft) {
  PlanningState& s = draft.state();
  const conf::TimePoint now = draft.now();
  for (const auto& [sequence, job] : s.timed) {
    const JobEntry& entry = s.jobs[job];
    if (entry.phase != Phase::kRunning) continue;
    if (entry.job.limit && entry.started + *entry.job.limit <= now) {
      draft.Stop(
          job, ActionKind::kStop, AfterStop::kLeaves, draft.GraceOf(entry),
          {"over-limit", fmt::format("has reached its time limit of {}", conf::InWords(*entry.job.limit))});
    } else if (entry.idle_since && entry.job.idle_timeout > conf::Duration::zero() &&
               *entry.idle_since + entry.job.idle_timeout <= now) {
      draft.Stop(
          job, ActionKind::kSuspend, AfterStop::kSuspends, draft.GraceOf(entry),
          {"idle", fmt::format("it has not been used for {}", conf::InWords(now - *entry.idle_since))});
    }
  }
}

void RepairGangs(PlanDraft& draft, ReservationBook& book) {
  PlanningState& s = draft.state();
  std::vector<JobIndex> broken;
  for (const auto& [sequence, job] : s.broken) {
    if (s.jobs[job].phase == Phase::kRunning) broken.push_back(job);
  }
  for (const JobIndex job : broken) RepairGang(draft, book, job);
}

void GrowElasticJobs(PlanDraft& draft, const ReservationBook& book) {
  if (!book.empty()) return;
  PlanningState& s = draft.state();
  std::vector<JobIndex> short_of_members;
  for (const auto& [sequence, job] : s.running) {
    const JobEntry& entry = s.jobs[job];
    if (entry.phase == Phase::kRunning && entry.leaving.empty() && s.state.of(job).size() < entry.members) {
      short_of_members.push_back(job);
    }
  }
  for (const JobIndex job : short_of_members) {
    std::vector<MemberAt> placed = draft.PlaceMembers(job, s.ZoneKeptOff(s.jobs[job]));
    if (placed.empty()) continue;
    const size_t count = placed.size();
    draft.Start(job, std::move(placed),
                {"grown", fmt::format("{} more members: no other job waits for the room", count)});
  }
}

void LeaveDrainingNodes(PlanDraft& draft, ReservationBook& book) {
  PlanningState& s = draft.state();
  if (s.state.totals().schedulable_nodes == s.state.cluster().nodes.size()) return;  // none drains
  std::vector<JobIndex> leaving;
  for (const auto& [sequence, job] : s.running) {
    if (!IsMovable(s.jobs[job])) continue;
    const auto drains = [&](MemberId id) {
      return s.state.health(s.state.member(id).holding.node) == Health::kDraining;
    };
    if (std::ranges::any_of(s.state.of(job), drains)) leaving.push_back(job);
  }
  for (const JobIndex job : leaving) MoveOffDrainingNodes(draft, book, job);
}

void Defragment(PlanDraft& draft, ReservationBook& book, const Moves& moves) {
  PlanningState& s = draft.state();
  DefragmentPolicy policy = s.policy.defragment;
  const bool budget = s.policy.moves.per_hour > 0;
  const conf::TimePoint now = draft.now();
  if (!policy.enabled || now < s.defragmented + policy.every) return;
  s.defragmented = now;
  if (budget) policy.max_moves = std::min(policy.max_moves, s.MovesLeft());
  if (policy.max_moves == 0) return;
  const auto movable = [&](const Member& member) {
    const JobEntry& entry = s.jobs[member.job];
    if (budget) return entry.members == 1 && moves.MayMove(member.job);
    return IsMovable(entry) && entry.started < now &&
           (entry.members == 1 || entry.job.work == WorkClass::kInference);
  };
  Defragmenter defragmenter(
      s.jobs, policy, movable, [&](JobIndex job) -> Placer& { return s.PlacerFor(s.jobs[job]); },
      [&](JobIndex job) { return book.KeepOffNominations(s.jobs[job]); });
  for (const Relocation& move : defragmenter.Round(draft.trial(), draft.rng())) {
    const Member& from = move.from;
    if (budget) {
      s.jobs[move.job].moved = now;
      s.moves.push_back(now);
    }
    draft.Move(
        move.job, {{from.role, from.rank, from.holding}}, {{from.role, from.rank, move.to}},
        {"defragmented", fmt::format("leaves {}, so that it becomes free for jobs that need a whole node",
                                     s.state.cluster().nodes[from.holding.node].name)});
  }
}

}  // namespace scheduler
