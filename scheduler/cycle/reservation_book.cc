#include "scheduler/cycle/reservation_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/shown.h"
#include "scheduler/cycle/backfill.h"

namespace scheduler {
namespace {

bool SharesNodes(const JobEntry& entry) {
  return std::ranges::all_of(entry.job.roles,
                             [](const Role& role) { return role.ask.isolation == Isolation::kNone; });
}

// Whether the job takes room on the nodes on which it runs.
bool TakesRoom(const JobEntry& entry) {
  return !SharesNodes(entry) || std::ranges::any_of(entry.job.roles, [](const Role& role) {
    return !role.ask.devices.empty() || role.ask.cpu_milli > 0 || role.ask.memory_mib > 0;
  });
}

}  // namespace

ReservationBook::ReservationBook(PlanDraft& draft)
    : draft_(draft),
      s_(draft.state()),
      now_(draft.now()),
      reservations_(s_.state.cluster().nodes.size()),
      kept_off_(s_.state.cluster().nodes.size()) {
  for (const Reservation& reservation : s_.reservations) {
    if (reservation.is_nomination()) {
      nominations_.push_back(reservation);
      continue;
    }
    last_.push_back(reservation);
    if (s_.policy.backfill.kind == Backfill::kConservative) promises_.push_back(reservation);
    // A job that was to end by then may have ended earlier.
    if (reservation.start <= now_ + s_.policy.preemption.grace) due_.push_back(reservation);
  }
}

// Whether any job is leaving places, for which a nomination could wait.
bool ReservationBook::OthersLeave() const {
  return !s_.moving.empty() || std::ranges::any_of(s_.running, [&](const auto& of) {
    return s_.jobs[of.second].phase == Phase::kStopping;
  });
}

void ReservationBook::KeepNominations() {
  std::vector<Reservation> kept = std::exchange(nominations_, {});
  if (kept.empty()) return;
  const bool others_leave = OthersLeave();
  std::erase_if(kept, [&](const Reservation& nomination) {
    const JobEntry& entry = s_.jobs[nomination.job];
    return entry.phase != Phase::kPending || !s_.MayStart(entry, now_) ||
           StartOn(nomination.job, nomination.members) || !others_leave ||
           s_.resources.FirstShort(entry.job.resources);
  });
  if (kept.empty()) return;
  const Trial::Mark mark = draft_.trial().mark();
  draft_.EvictAllLeaving();
  std::erase_if(kept,
                [&](const Reservation& nomination) { return !Assign(nomination.job, nomination.members); });
  draft_.trial().Rollback(mark);
  for (Reservation& nomination : kept) {
    const conf::Duration late = std::max(now_ - nomination.start, conf::Duration::zero());
    nomination.start += late;
    nomination.end += late;
    const JobAccount& account = s_.accounts[nomination.job];
    if (s_.queues.Admit(account.account, account.minimum).admitted()) Add(std::move(nomination));
  }
}

bool ReservationBook::StartOn(JobIndex job, const std::vector<MemberAt>& places) {
  if (s_.resources.FirstShort(s_.jobs[job].job.resources)) return false;
  const Trial::Mark mark = draft_.trial().mark();
  if (!Assign(job, places)) return false;
  std::vector<MemberAt> members = places;
  if (!draft_.LeaveOutSurplus(job, members)) {
    draft_.trial().Rollback(mark);
    return false;
  }
  draft_.Start(job, std::move(members), {"fits", "other jobs have made room for it"});
  return true;
}

bool ReservationBook::Assign(JobIndex job, const std::vector<MemberAt>& places) {
  Trial& trial = draft_.trial();
  const Trial::Mark mark = trial.mark();
  const auto assign = [&](const MemberAt& member) {
    const NodeId node = member.holding.node;
    if (s_.state.health(node) != Health::kHealthy ||
        !IsFree(s_.state.node(node), member.holding, s_.state.view_of(node))) {
      return false;
    }
    trial.Assign({job, member.role, member.rank, member.holding});
    return s_.state.power_headroom(node) >= 0;
  };
  if (std::ranges::all_of(places, assign)) return true;
  trial.Rollback(mark);
  return false;
}

void ReservationBook::AssignNominations() {
  for (const Reservation& nomination : nominations_) Assign(nomination.job, nomination.members);
}

bool ReservationBook::IsNominated(JobIndex job) const {
  return std::ranges::find(nominations_, job, &Reservation::job) != nominations_.end();
}

void ReservationBook::Nominate(JobIndex job, std::vector<MemberAt> members) {
  Reservation nomination{.job = job, .start = now_, .end = {}, .nodes = {}, .members = std::move(members)};
  for (const auto& [sequence, other] : s_.running) {
    const JobEntry& entry = s_.jobs[other];
    if (entry.phase == Phase::kStopping) nomination.start = std::max(nomination.start, entry.stops_at);
  }
  nomination.end = nomination.start + s_.ExpectedRun(job);
  nomination.nodes = NodesOf(nomination.members);
  Add(std::move(nomination));
}

void ReservationBook::Add(Reservation nomination) {
  const JobAccount& account = s_.accounts[nomination.job];
  for (const Amount& amount : account.minimum) s_.queues.Charge(account.account, amount);
  draft_.Waits(nomination.job,
               {"reserved", fmt::format("{} {} reserved for it from {}, when other jobs have made room",
                                        conf::Counted(nomination.nodes.size(), "node"),
                                        nomination.nodes.size() == 1 ? "is" : "are",
                                        conf::FormatTime(nomination.start))});
  reservations_.Add(nomination);
  nominations_.push_back(std::move(nomination));
}

void ReservationBook::RefundNominations() {
  for (const Reservation& nomination : nominations_) {
    const JobAccount& account = s_.accounts[nomination.job];
    for (const Amount& amount : account.minimum) s_.queues.Refund(account.account, amount);
  }
}

const NodeSet* ReservationBook::KeepOffNominations(const JobEntry& entry) {
  const NodeSet* const zone = s_.ZoneKeptOff(entry);
  if (nominations_.empty()) return zone;
  kept_off_.Clear();
  if (zone != nullptr) kept_off_.AddAll(*zone);
  for (const Reservation& nomination : nominations_) {
    for (const NodeId node : nomination.nodes) kept_off_.Add(node);
  }
  return &kept_off_;
}

const NodeSet* ReservationBook::KeepOff(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to) {
  // A job that takes no room delays no reservation, except one of a job that shares no node.
  const auto shares = [&](const Reservation& kept) { return SharesNodes(s_.jobs[kept.job]); };
  if (!TakesRoom(entry) && std::ranges::all_of(reservations_.all(), shares)) return s_.ZoneKeptOff(entry);
  const NodeSet* const always = KeepOffNominations(entry);
  const NodeSet* const reserved = reservations_.KeepOff(from, to);
  if (always == nullptr || reserved == nullptr) return always != nullptr ? always : reserved;
  if (always != &kept_off_) kept_off_ = *always;
  kept_off_.AddAll(*reserved);
  return &kept_off_;
}

const NodeSet* ReservationBook::KeepOffToPreempt(const JobEntry& entry, conf::TimePoint from,
                                                 conf::TimePoint to) {
  if (nominations_.empty()) return KeepOff(entry, from, to);
  kept_off_.Clear();
  if (const NodeSet* const zone = s_.ZoneKeptOff(entry); zone != nullptr) kept_off_.AddAll(*zone);
  for (const Reservation& reservation : reservations_.all()) {
    if (reservation.is_nomination() || reservation.start >= to || reservation.end <= from) continue;
    for (const NodeId node : reservation.nodes) kept_off_.Add(node);
  }
  return &kept_off_;
}

NodeSet ReservationBook::AllBut(const std::vector<NodeId>& nodes) const {
  NodeSet others(s_.state.cluster().nodes.size());
  for (NodeId node = 0; node < s_.state.cluster().nodes.size(); ++node) others.Add(node);
  for (const NodeId node : nodes) others.Remove(node);
  return others;
}

std::vector<MemberAt> ReservationBook::PlaceOnReserved(JobIndex job, const NodeSet* keep_off) {
  const auto at = std::ranges::find(due_, job, &Reservation::job);
  if (at == due_.end()) return {};
  NodeSet others = AllBut(at->nodes);
  if (keep_off != nullptr) others.AddAll(*keep_off);
  return draft_.PlaceMembers(job, &others);
}

bool ReservationBook::IsDue(JobIndex job) const {
  const auto at = std::ranges::find(due_, job, &Reservation::job);
  return at != due_.end() && at->start <= now_;
}

std::optional<Reservation> ReservationBook::TakePromise(JobIndex job) {
  const auto at = std::ranges::find(promises_, job, &Reservation::job);
  if (at == promises_.end()) return std::nullopt;
  Reservation promise = std::move(*at);
  promises_.erase(at);
  if (promise.start < now_) return std::nullopt;
  return promise;
}

size_t ReservationBook::AddPromises() {
  const size_t size = reservations_.all().size();
  for (const Reservation& promise : promises_) reservations_.Add(promise);
  return size;
}

// Whether the job still fits on its nodes by then, as far as is known now.
bool ReservationBook::StillFits(const Reservation& promise) {
  const JobEntry& entry = s_.jobs[promise.job];
  Trial& trial = draft_.trial();
  const Trial::Mark mark = trial.mark();
  // Members elsewhere matter for power alone.
  std::vector<MemberId> gone;
  for (const Release& release : draft_.Releases()) {
    if (release.at > promise.start) break;
    for (const MemberId id : s_.state.of(release.job)) {
      const NodeId node = s_.state.member(id).holding.node;
      if (s_.state.has_power_budgets() || std::ranges::binary_search(promise.nodes, node)) gone.push_back(id);
    }
  }
  trial.Evict(gone);
  const NodeSet others = AllBut(promise.nodes);
  Rng unused = OwnRng(entry.job);
  const GangResult result = s_.gangs.Place(trial, s_.PlacerFor(entry), promise.job, entry, &others, unused);
  trial.Rollback(mark);
  return !result.placed.empty();
}

// Whether jobs on its nodes should have ended by now.
bool ReservationBook::IsLate(const Reservation& reservation) const {
  return std::ranges::any_of(reservation.nodes, [&](NodeId node) {
    return std::ranges::any_of(s_.state.on(node), [&](MemberId id) {
      const JobIndex job = s_.state.member(id).job;
      return s_.jobs[job].phase == Phase::kRunning && s_.jobs[job].started + s_.ExpectedRun(job) < now_;
    });
  });
}

std::optional<Reservation> ReservationBook::Find(JobIndex job, conf::TimePoint not_before,
                                                 const NodeSet* keep_off, conf::TimePoint before) {
  const JobEntry& entry = s_.jobs[job];
  return FindReservation(draft_.trial(), s_.gangs, s_.PlacerFor(entry),
                         {.job = job,
                          .entry = entry,
                          .run = s_.ExpectedRun(job),
                          .now = now_,
                          .not_before = not_before,
                          .keep_off = keep_off,
                          .before = before},
                         draft_.Releases(), reservations_);
}

// Late nodes are kept unless other nodes come free in half the time. Among many jobs some are always about to end by
// their estimates; a job that moved to their nodes again and again would lose the room already freed for it.
std::optional<Reservation> ReservationBook::FindAgain(JobIndex job, conf::TimePoint not_before) {
  const auto last = std::ranges::find(last_, job, &Reservation::job);
  if (last == last_.end() || !IsLate(*last)) return std::nullopt;
  const NodeSet* const zone = s_.ZoneKeptOff(s_.jobs[job]);
  NodeSet others = AllBut(last->nodes);
  if (zone != nullptr) others.AddAll(*zone);
  std::optional<Reservation> kept = Find(job, not_before, &others, conf::TimePoint::max());
  if (!kept) return std::nullopt;
  const conf::TimePoint from = std::max(now_, not_before);
  std::optional<Reservation> sooner = Find(job, not_before, zone, from + (kept->start - from) / 2);
  return sooner ? sooner : kept;
}

// A job that was promised a start keeps it unless it can have an earlier one beside the promises to others.
bool ReservationBook::Reserve(JobIndex job, conf::TimePoint not_before,
                              const std::optional<Reservation>& promise) {
  const size_t made = reservations_.all().size();
  if (promise) AddPromises();
  for (const Reservation& other : due_) {
    if (other.job != job && s_.jobs[other.job].phase == Phase::kPending) reservations_.Add(other);
  }
  const Trial::Mark mark = draft_.trial().mark();
  for (const auto& [sequence, other] : s_.moving) draft_.EvictLeaving(other);
  const NodeSet* const zone = s_.ZoneKeptOff(s_.jobs[job]);
  std::optional<Reservation> reservation;
  if (promise) reservation = Find(job, not_before, zone, promise->start);
  if (promise && !reservation && StillFits(*promise)) reservation = promise;
  if (!reservation) reservation = FindAgain(job, not_before);
  if (!reservation) reservation = Find(job, not_before, zone, conf::TimePoint::max());
  draft_.trial().Rollback(mark);
  reservations_.Truncate(made);
  if (!reservation) {
    draft_.Waits(job, {"impossible", "never fits beside the nodes that are reserved for other jobs"});
    return false;
  }
  draft_.Waits(job,
               {"reserved", fmt::format("{} {} reserved for it from {}, when enough running jobs have ended",
                                        conf::Counted(reservation->nodes.size(), "node"),
                                        reservation->nodes.size() == 1 ? "is" : "are",
                                        conf::FormatTime(reservation->start))});
  reservations_.Add(std::move(*reservation));
  return true;
}

}  // namespace scheduler
