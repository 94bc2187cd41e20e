// The part of a cycle that finds room: for a job now, for it in an empty cluster, and for it later.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "scheduler/cycle/cycle.h"

namespace scheduler {

// Each kind once.
std::vector<Amount> Cycle::AmountsOf(const std::vector<MemberAt>& members) const {
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

bool Cycle::LeaveOutSurplus(JobIndex job, std::vector<MemberAt>& placed) {
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

std::vector<MemberAt> Cycle::PlaceMembers(JobIndex job, const NodeSet* keep_off) {
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

NodeSet Cycle::AllBut(const std::vector<NodeId>& nodes) const {
  NodeSet others(s_.state.cluster().nodes.size());
  for (NodeId node = 0; node < s_.state.cluster().nodes.size(); ++node) others.Add(node);
  for (const NodeId node : nodes) others.Remove(node);
  return others;
}

std::vector<MemberAt> Cycle::PlaceOnReserved(JobIndex job, const NodeSet* keep_off) {
  const auto at = std::ranges::find(due_, job, &Reservation::job);
  if (at == due_.end()) return {};
  NodeSet others = AllBut(at->nodes);
  if (keep_off != nullptr) others.AddAll(*keep_off);
  return PlaceMembers(job, &others);
}

bool Cycle::FitsAnywhere(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  const Trial::Mark mark = trial_.mark();
  Rng unused = OwnRng(entry.job);
  const GangResult result =
      s_.gangs.Place(trial_, s_.PlacerFor(entry), job, entry, s_.ZoneKeptOff(entry), unused);
  trial_.Rollback(mark);
  return !result.placed.empty();
}

bool Cycle::Impossible(JobIndex job) {
  const uint32_t signature = s_.jobs[job].signature;
  if (s_.possible_since[signature] == s_.changed) return false;
  if (s_.impossible_since[signature] != s_.changed) {
    const Trial::Mark mark = trial_.mark();
    for (const auto& [sequence, other] : s_.running) trial_.EvictJob(other);
    const bool fits = FitsAnywhere(job);
    trial_.Rollback(mark);
    (fits ? s_.possible_since : s_.impossible_since)[signature] = s_.changed;
    if (fits) return false;
  }
  Waits(job, {"impossible", "does not fit on the cluster's healthy nodes even when all else has ended"});
  return true;
}

const NodeSet* Cycle::KeepOff(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to) {
  const NodeSet* const always = KeepOffRooms(entry);
  const NodeSet* const reserved = reservations_.KeepOff(from, to);
  if (always == nullptr || reserved == nullptr) return always != nullptr ? always : reserved;
  if (always != &kept_off_) kept_off_ = *always;
  kept_off_.AddAll(*reserved);
  return &kept_off_;
}

const NodeSet* Cycle::KeepOffToPreempt(const JobEntry& entry, conf::TimePoint from, conf::TimePoint to) {
  if (rooms_.empty()) return KeepOff(entry, from, to);
  kept_off_.Clear();
  if (const NodeSet* const zone = s_.ZoneKeptOff(entry); zone != nullptr) kept_off_.AddAll(*zone);
  for (const Reservation& reservation : reservations_.all()) {
    if (reservation.is_room() || reservation.start >= to || reservation.end <= from) continue;
    for (const NodeId node : reservation.nodes) kept_off_.Add(node);
  }
  return &kept_off_;
}

const std::vector<Release>& Cycle::Releases() {
  if (releases_known_) return releases_;
  releases_.clear();
  for (const auto& [sequence, job] : s_.running) {
    releases_.push_back({s_.jobs.ExpectedEnd(job, now_, s_.policy.backfill.unknown_estimate), sequence, job});
  }
  SortReleases(releases_);
  releases_known_ = true;
  return releases_;
}

std::optional<Reservation> Cycle::TakePromise(JobIndex job) {
  const auto at = std::ranges::find(promises_, job, &Reservation::job);
  if (at == promises_.end()) return std::nullopt;
  Reservation promise = std::move(*at);
  promises_.erase(at);
  if (promise.start < now_) return std::nullopt;
  return promise;
}

// Whether the job still fits on its nodes by then, as far as is known now.
bool Cycle::Holds(const Reservation& promise) {
  const JobEntry& entry = s_.jobs[promise.job];
  const Trial::Mark mark = trial_.mark();
  // What stands elsewhere makes a difference to power alone.
  std::vector<MemberId> gone;
  for (const Release& release : Releases()) {
    if (release.at > promise.start) break;
    for (const MemberId id : s_.state.of(release.job)) {
      const NodeId node = s_.state.member(id).holding.node;
      if (s_.state.has_power_budgets() || std::ranges::binary_search(promise.nodes, node)) gone.push_back(id);
    }
  }
  for (const MemberId id : gone) trial_.Evict(id);
  const NodeSet others = AllBut(promise.nodes);
  Rng unused = OwnRng(entry.job);
  const GangResult result = s_.gangs.Place(trial_, s_.PlacerFor(entry), promise.job, entry, &others, unused);
  trial_.Rollback(mark);
  return !result.placed.empty();
}

// Whether jobs on its nodes should have ended by now.
bool Cycle::IsLate(const Reservation& reservation) const {
  return std::ranges::any_of(reservation.nodes, [&](NodeId node) {
    return std::ranges::any_of(s_.state.on(node), [&](MemberId id) {
      const JobIndex job = s_.state.member(id).job;
      return s_.jobs[job].phase == Phase::kRunning && s_.jobs[job].started + s_.ExpectedRun(job) < now_;
    });
  });
}

// A job that was promised a start keeps it unless it can have an earlier one beside the promises to others;
// the conservative kind promises. A set of nodes on which jobs outlive their estimates is kept unless another
// comes in half the time: of many jobs some always are about to end by their estimates, and whoever changes
// to their nodes again and again gives away what had been freed for it.
bool Cycle::ReserveFor(JobIndex job, conf::TimePoint not_before, const std::optional<Reservation>& promise) {
  const JobEntry& entry = s_.jobs[job];
  const size_t made = reservations_.all().size();
  if (promise) {
    for (const Reservation& other : promises_) reservations_.Add(other);
  }
  for (const Reservation& other : due_) {
    if (other.job != job && s_.jobs[other.job].phase == Phase::kPending) reservations_.Add(other);
  }
  const Trial::Mark mark = trial_.mark();
  for (const auto& [sequence, other] : s_.running) {
    if (!s_.jobs[other].leaving.empty()) EvictLeaving(other);
  }
  const NodeSet* const zone = s_.ZoneKeptOff(entry);
  const auto find_off = [&](const NodeSet* off, conf::TimePoint before) {
    return Reserve(trial_, s_.gangs, s_.PlacerFor(entry), job, entry, s_.ExpectedRun(job), now_, not_before,
                   Releases(), reservations_, off, before);
  };
  const auto find = [&](conf::TimePoint before) { return find_off(zone, before); };
  const auto find_again = [&]() -> std::optional<Reservation> {
    const auto last = std::ranges::find(last_, job, &Reservation::job);
    if (last == last_.end() || !IsLate(*last)) return std::nullopt;
    NodeSet others = AllBut(last->nodes);
    if (zone != nullptr) others.AddAll(*zone);
    std::optional<Reservation> kept = find_off(&others, conf::TimePoint::max());
    if (!kept) return std::nullopt;
    const conf::TimePoint from = std::max(now_, not_before);
    std::optional<Reservation> sooner = find(from + (kept->start - from) / 2);
    return sooner ? sooner : kept;
  };
  std::optional<Reservation> reservation;
  if (promise) reservation = find(promise->start);
  if (promise && !reservation && Holds(*promise)) reservation = promise;
  if (!reservation) reservation = find_again();
  if (!reservation) reservation = find(conf::TimePoint::max());
  trial_.Rollback(mark);
  reservations_.Truncate(made);
  if (!reservation) {
    Waits(job, {"impossible", "does not fit beside what is reserved for others, ever"});
    return false;
  }
  Waits(job,
        {"reserved", fmt::format("{} nodes are reserved for it from {}, when enough of what runs has ended",
                                 reservation->nodes.size(), conf::FormatTime(reservation->start))});
  reservations_.Add(std::move(*reservation));
  return true;
}

}  // namespace scheduler
