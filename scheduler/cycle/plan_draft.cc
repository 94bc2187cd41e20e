#include "scheduler/cycle/plan_draft.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "scheduler/placement/shortfall.h"

namespace scheduler {
namespace {

constexpr size_t kMaxWaitingReasons = 1000;

}  // namespace

PlanDraft::PlanDraft(PlanningState& state, conf::TimePoint now, Rng& rng)
    : s_(state), now_(now), rng_(rng), trial_(state.state) {
  plan_.based_on = ++s_.version;
  s_.plans_again = false;
}

Plan PlanDraft::Finish(const std::vector<Reservation>& reservations) {
  trial_.Commit();
  for (const Reservation& r : reservations) {
    plan_.reserved.push_back({s_.jobs[r.job].job.id, r.start, r.end, r.nodes, r.members});
  }
  s_.reservations = reservations;
  if (taken_back_ > 0) {  // room was found for jobs that had been told to wait, and may be left for others
    s_.plans_again = !begun_.empty();
    std::erase_if(plan_.waiting,
                  [&](const auto& of) { return s_.jobs[s_.jobs.Find(of.first)].phase != Phase::kPending; });
  }
  return std::move(plan_);
}

void PlanDraft::Waits(JobIndex job, Reason why) {
  if (plan_.waiting.size() < kMaxWaitingReasons)
    plan_.waiting.emplace_back(s_.jobs[job].job.id, std::move(why));
}

conf::Duration PlanDraft::GraceOf(const JobEntry& entry) const {
  return std::max(s_.policy.preemption.grace, entry.job.checkpoint.save);
}

void PlanDraft::Start(JobIndex job, std::vector<MemberAt> members, Reason why) {
  JobEntry& entry = s_.jobs[job];
  for (const MemberAt& member : members) s_.Charge(job, member.holding);
  if (entry.phase == Phase::kPending) {
    s_.pending.Remove(entry);
    s_.Run(job, now_);
    begun_.insert(job);
  }
  releases_known_ = false;
  plan_.actions.push_back({.kind = ActionKind::kStart,
                           .job = entry.job.id,
                           .members = std::move(members),
                           .grace = {},
                           .why = std::move(why)});
}

void PlanDraft::Stop(JobIndex job, ActionKind kind, AfterStop after, conf::Duration grace, Reason why) {
  JobEntry& entry = s_.jobs[job];
  entry.phase = Phase::kStopping;
  entry.stops_at = now_ + grace;
  entry.after_stop = after;
  releases_known_ = false;
  plan_.actions.push_back(
      {.kind = kind, .job = entry.job.id, .members = {}, .grace = grace, .why = std::move(why)});
}

std::vector<MemberAt> PlanDraft::TakeBack(JobIndex job, const std::vector<MemberAt>& members) {
  const auto start = std::ranges::find_if(plan_.actions, [&](const Action& action) {
    return action.kind == ActionKind::kStart && action.job == s_.jobs[job].job.id;
  });
  if (start == plan_.actions.end()) return members;
  std::vector<MemberAt> ran_before;
  for (const MemberAt& member : members) {
    if (std::erase(start->members, member) == 0) {
      ran_before.push_back(member);
      continue;
    }
    EvictAt(job, member);
    s_.Refund(job, member.holding);
    ++taken_back_;
  }
  if (start->members.empty()) plan_.actions.erase(start);
  ++s_.freed;
  releases_known_ = false;
  if (s_.state.of(job).empty() && begun_.erase(job) > 0) {
    s_.EndRun(job);
    s_.Wait(job);
  }
  return ran_before;
}

void PlanDraft::Preempt(JobIndex job, Reason why) {
  const JobEntry& entry = s_.jobs[job];
  const std::vector<MemberAt> ran_before = TakeBack(job, s_.MembersOf(job));
  if (entry.phase == Phase::kPending) {
    return Waits(job, {std::move(why.code), "is not started after all: " + why.text});
  }
  const conf::Duration grace = ran_before.empty() ? conf::Duration::zero() : GraceOf(entry);
  Stop(job, ActionKind::kPreempt, AfterStop::kWaits, grace, std::move(why));
}

void PlanDraft::Shrink(JobIndex job, const std::vector<MemberAt>& members, Reason why) {
  const JobEntry& entry = s_.jobs[job];
  std::vector<MemberAt> ran_before = TakeBack(job, members);
  if (ran_before.empty()) return;
  s_.AddLeaving(job, ran_before);
  for (const MemberAt& member : ran_before) s_.Refund(job, member.holding);
  releases_known_ = false;
  plan_.actions.push_back({.kind = ActionKind::kShrink,
                           .job = entry.job.id,
                           .members = std::move(ran_before),
                           .grace = GraceOf(entry),
                           .why = std::move(why)});
}

void PlanDraft::Move(JobIndex job, const std::vector<MemberAt>& from, std::vector<MemberAt> to, Reason why) {
  const JobEntry& entry = s_.jobs[job];
  s_.AddLeaving(job, from);
  for (const MemberAt& member : from) s_.Refund(job, member.holding);
  for (const MemberAt& member : to) s_.Charge(job, member.holding);
  releases_known_ = false;
  plan_.actions.push_back({.kind = ActionKind::kMove,
                           .job = entry.job.id,
                           .members = std::move(to),
                           .grace = GraceOf(entry),
                           .why = std::move(why)});
}

void PlanDraft::Abandon(JobIndex job, Reason why) {
  plan_.actions.push_back({.kind = ActionKind::kStop,
                           .job = s_.jobs[job].job.id,
                           .members = {},
                           .grace = {},
                           .why = std::move(why)});
  s_.Leave(job);
}

const std::vector<Release>& PlanDraft::Releases() {
  if (releases_known_) return releases_;
  releases_.clear();
  for (const auto& [sequence, job] : s_.running) {
    releases_.push_back({s_.jobs.ExpectedEnd(job, now_, s_.policy.backfill.unknown_estimate), sequence, job});
  }
  SortReleases(releases_);
  releases_known_ = true;
  return releases_;
}

// Each kind once.
std::vector<Amount> PlanDraft::AmountsOf(const std::vector<MemberAt>& members) const {
  std::vector<Amount> amounts;
  for (const MemberAt& member : members) {
    const Amount amount = AmountOf(member.holding, s_.state.view_of(member.holding.node));
    const auto same = std::ranges::find(amounts, amount.kind, &Amount::kind);
    if (same == amounts.end()) {
      amounts.push_back(amount);
    } else {
      same->milli += amount.milli;
    }
  }
  return amounts;
}

bool PlanDraft::LeaveOutSurplus(JobIndex job, std::vector<MemberAt>& placed) {
  const JobEntry& entry = s_.jobs[job];
  std::vector<uint32_t> held(entry.job.roles.size(), 0);
  for (const MemberId id : s_.state.of(job)) ++held[s_.state.member(id).role];
  while (!s_.queues.Admit(s_.accounts[job].account, AmountsOf(placed)).admitted()) {
    const auto surplus = std::find_if(placed.rbegin(), placed.rend(), [&](const MemberAt& m) {
      return held[m.role] > entry.job.roles[m.role].min_count;
    });
    if (surplus == placed.rend()) return false;
    for (const MemberId id : s_.state.of(job)) {
      const Member& member = s_.state.member(id);
      if (member.role != surplus->role || member.rank != surplus->rank) continue;
      trial_.Evict(id);
      break;
    }
    --held[surplus->role];
    placed.erase(std::next(surplus).base());
  }
  return !placed.empty();
}

std::vector<MemberAt> PlanDraft::PlaceMembers(JobIndex job, const NodeSet* keep_off) {
  const JobEntry& entry = s_.jobs[job];
  const Trial::Mark mark = trial_.mark();
  Rng draws = rng_;
  GangResult result = s_.gangs.Place(trial_, s_.PlacerFor(entry), job, entry, keep_off, draws);
  if (result.placed.empty()) return {};
  if (!LeaveOutSurplus(job, result.placed)) {
    trial_.Rollback(mark);
    return {};
  }
  rng_ = draws;
  return std::move(result.placed);
}

bool PlanDraft::FitsUnreserved(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  const Trial::Mark mark = trial_.mark();
  Rng unused = OwnRng(entry.job);
  const GangResult result =
      s_.gangs.Place(trial_, s_.PlacerFor(entry), job, entry, s_.ZoneKeptOff(entry), unused);
  trial_.Rollback(mark);
  return !result.placed.empty();
}

bool PlanDraft::IsImpossible(JobIndex job) {
  const uint32_t signature = s_.jobs[job].signature;
  if (s_.possible_since[signature] == s_.changed) return false;
  if (s_.impossible_since[signature] != s_.changed) {
    const Trial::Mark mark = trial_.mark();
    std::vector<JobIndex> others;
    for (const auto& [sequence, other] : s_.running) others.push_back(other);
    trial_.EvictJobs(others);
    const bool fits = FitsUnreserved(job);
    trial_.Rollback(mark);
    (fits ? s_.possible_since : s_.impossible_since)[signature] = s_.changed;
    if (fits) return false;
  }
  Waits(job, {"impossible",
              "does not fit on the healthy nodes of the cluster even when all other jobs have ended: " +
                  ShortfallOf(s_.jobs[job].job, s_.state.cluster(), Among::kHealthyNodes)});
  return true;
}

void PlanDraft::EvictAt(JobIndex job, const MemberAt& place) {
  const auto members = s_.state.of(job);
  const auto at = std::ranges::find_if(members, [&](MemberId id) {
    const Member& member = s_.state.member(id);
    return MemberAt{member.role, member.rank, member.holding} == place;
  });
  trial_.Evict(*at);
}

void PlanDraft::EvictLeaving(JobIndex job) {
  for (const MemberAt& old : s_.jobs[job].leaving) EvictAt(job, old);
}

void PlanDraft::EvictAllLeaving() {
  for (const auto& [sequence, job] : s_.running) {
    if (s_.jobs[job].phase == Phase::kStopping) {
      trial_.EvictJob(job);
    } else {
      EvictLeaving(job);
    }
  }
}

}  // namespace scheduler
