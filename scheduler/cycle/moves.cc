#include "scheduler/cycle/moves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "conf/shown.h"
#include "scheduler/filler.h"
#include "scheduler/state/node_state.h"

namespace scheduler {
namespace {

constexpr uint32_t kSearches = 4;  // waiting jobs for which moves are sought, in one cycle
constexpr int kTries = 4;          // with other jobs, for each of them
// A gang is brought together where that costs at most this part of what is left of its run.
constexpr double kMostOfRun = 0.05;
constexpr double kEnoughRuns = 2;  // of jobs like it, to expect its end by theirs
// Holds places for a moment, so that nothing else is put there.
constexpr JobIndex kPlaceHolder = kNone;

bool IsRigid(const Job& job) {
  return std::ranges::all_of(job.roles, [](const Role& role) { return role.min_count == role.count; });
}

void Evict(Trial& trial, const Member& member) {
  for (const MemberId id : trial.state().of(member.job)) {
    if (trial.state().member(id) != member) continue;
    return trial.Evict(id);
  }
}

void Assign(Trial& trial, JobIndex job, const std::vector<MemberAt>& places) {
  for (const MemberAt& at : places)
    trial.Assign({.job = job, .role = at.role, .rank = at.rank, .holding = at.holding});
}

conf::Duration Rounded(conf::Duration length) {
  return std::chrono::duration_cast<std::chrono::seconds>(length);
}

std::string DevicesOf(const JobEntry& entry) {
  const int64_t milli = entry.device_milli;
  if (milli % kWholeDevice == 0) return conf::Counted(static_cast<size_t>(milli / kWholeDevice), "device");
  return fmt::format("{:.2f} devices", static_cast<double>(milli) / kWholeDevice);
}

}  // namespace

bool Moves::CanMove(JobIndex job) const {
  const JobEntry& entry = s_.jobs[job];
  if (entry.phase != Phase::kRunning || !entry.leaving.empty() || entry.lost_members) return false;
  if (draft_.Begins(job)) return false;
  // Until a replica has moved it exists twice, and both would hold its countable resources.
  if (entry.job.work == WorkClass::kInference) return entry.job.resources.empty();
  return entry.job.preemptible && entry.job.checkpoint.interval > conf::Duration::zero();
}

bool Moves::HasMovedLately(const JobEntry& entry) const {
  return entry.moved != conf::TimePoint() && draft_.now() < entry.moved + s_.policy.moves.rest;
}

// By its estimate, or earlier where jobs like it have ended earlier.
conf::TimePoint Moves::ExpectedEnd(JobIndex job) const {
  const JobEntry& entry = s_.jobs[job];
  const conf::TimePoint by_estimate =
      s_.jobs.ExpectedEnd(job, draft_.now(), s_.policy.backfill.unknown_estimate);
  const std::optional<RunClass> of = RunHistory::ClassOf(entry.job);
  if (!of) return by_estimate;
  const RunEstimate learned = s_.runs.Estimate(*of);
  if (learned.runs < kEnoughRuns) return by_estimate;
  const conf::TimePoint end = entry.started + learned.expected - entry.done;
  return end < draft_.now() ? by_estimate : std::min(by_estimate, end);
}

bool Moves::MayMove(JobIndex job) const {
  const JobEntry& entry = s_.jobs[job];
  const MovesPolicy& policy = s_.policy.moves;
  const conf::TimePoint now = draft_.now();
  if (!CanMove(job) || HasMovedLately(entry) || now < entry.started + policy.rest) return false;
  if (entry.job.work == WorkClass::kInference) return true;  // it has no end of its own
  return ExpectedEnd(job) >= now + policy.least_left;
}

bool Moves::MayStop(JobIndex filler, const Job& waiting) const {
  const JobEntry& entry = s_.jobs[filler];
  return entry.phase == Phase::kRunning && IsFiller(entry.job) && entry.job.priority < waiting.priority &&
         std::ranges::find(waiting.never_preempts, entry.job.work) == waiting.never_preempts.end();
}

// The gain is the time until the job's reservation; without one, a job is expected to wait as long again.
conf::Duration Moves::GainOf(JobIndex job) const {
  const auto reserved = std::ranges::find_if(s_.reservations, [&](const Reservation& reservation) {
    return reservation.job == job && !reservation.is_nomination();
  });
  if (reserved != s_.reservations.end()) return reserved->start - draft_.now();
  return draft_.now() - s_.jobs[job].job.submitted;
}

bool Moves::AreFree(const std::vector<MemberAt>& places) {
  Trial& trial = draft_.trial();
  const Trial::Mark mark = trial.mark();
  const bool free = std::ranges::all_of(places, [&](const MemberAt& at) {
    const NodeId node = at.holding.node;
    if (!IsFree(s_.state.node(node), at.holding, s_.state.view_of(node))) return false;
    Assign(trial, kPlaceHolder, {at});
    return true;
  });
  trial.Rollback(mark);
  return free;
}

NodeSet Moves::KeepOff(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  const conf::TimePoint now = draft_.now();
  const NodeSet* const kept = book_.KeepOff(entry, now, ExpectedEnd(job));
  return kept == nullptr ? NodeSet(s_.state.cluster().nodes.size()) : *kept;
}

// The members of jobs that made room in the trial whose places are now taken. A replica's members move together, since
// another replica replaces it.
std::vector<Moves::Relocated> Moves::MustLeave(const std::vector<Victim>& victims) {
  Trial& trial = draft_.trial();
  std::vector<Relocated> moves;
  for (const Victim& victim : victims) {
    if (IsFiller(s_.jobs[victim.job].job)) continue;  // it is stopped
    Relocated move{.job = victim.job, .from = {}, .to = {}};
    std::vector<Member> stays;
    for (const MemberAt& at : victim.members) {
      const Member member{.job = victim.job, .role = at.role, .rank = at.rank, .holding = at.holding};
      if (AreFree({at})) {
        trial.Assign(member);
        stays.push_back(member);
      } else {
        move.from.push_back(member);
      }
    }
    if (move.from.empty()) continue;
    const Job& job = s_.jobs[victim.job].job;
    if (job.work == WorkClass::kInference && IsRigid(job)) {
      for (const Member& member : stays) {
        Evict(trial, member);
        move.from.push_back(member);
      }
    }
    std::ranges::sort(move.from, {}, [](const Member& m) { return std::tuple(m.role, m.rank); });
    moves.push_back(std::move(move));
  }
  return moves;
}

// Finds places for the members, which hold nothing in the trial. The choice depends on the state alone.
bool Moves::FindPlaces(Relocated& move, const NodeSet* except) {
  JobEntry entry = s_.jobs[move.job];
  entry.job.pinned.clear();  // a replica that slept: another one takes its place
  Rng own = OwnRng(entry.job);
  move.to = s_.gangs.Place(draft_.trial(), s_.PlacerFor(entry), move.job, entry, except, own).placed;
  return move.to.size() == move.from.size();
}

// The same while the members hold their places: the new places are others.
bool Moves::FindPlacesBeside(Relocated& move, const NodeSet* except) {
  Trial& trial = draft_.trial();
  const Trial::Mark mark = trial.mark();
  for (const Member& member : move.from) {
    Evict(trial, member);
    Member holder = member;
    holder.job = kPlaceHolder;
    trial.Assign(holder);
  }
  const bool found = FindPlaces(move, except);
  trial.Rollback(mark);
  return found && AreFree(move.to);
}

// In the trial the job's members hold their old places.
void Moves::Move(const Relocated& move, Reason why) {
  std::vector<MemberAt> from;
  for (const Member& member : move.from) from.push_back({member.role, member.rank, member.holding});
  Assign(draft_.trial(), move.job, move.to);
  s_.jobs[move.job].moved = draft_.now();
  std::erase_if(s_.moves, [&](conf::TimePoint at) { return at + std::chrono::hours(1) <= draft_.now(); });
  s_.moves.push_back(draft_.now());
  draft_.Move(move.job, from, move.to, std::move(why));
}

void Moves::StopFiller(const Victim& victim, const Job& waiting) {
  draft_.Preempt(victim.job,
                 {"preempted", fmt::format("makes room for {}: it only used what was idle", waiting.id)});
}

// The jobs whose move lets the waiting job fit, and its places then; empty: there is no such set.
std::vector<Victim> Moves::FindRoom(JobIndex job, const std::set<JobIndex>& stay,
                                    std::vector<MemberAt>& places) {
  const JobEntry& entry = s_.jobs[job];
  Trial& trial = draft_.trial();
  const conf::TimePoint now = draft_.now();
  const conf::TimePoint end = now + s_.ExpectedRun(job);
  const auto place = [&](Trial& in) {
    Rng own = OwnRng(entry.job);
    const NodeSet* const keep_off = book_.KeepOffToPreempt(entry, now, end);
    return !s_.gangs.Place(in, s_.PlacerFor(entry), job, entry, keep_off, own).placed.empty();
  };
  const Trial::Mark mark = trial.mark();
  draft_.EvictAllLeaving();
  book_.AssignNominations();
  std::vector<Victim> victims;
  if (!place(trial)) {  // else others make room already
    const VictimSearchInput input{.trial = trial,
                                  .jobs = s_.jobs,
                                  .shapes = s_.shapes,
                                  .tree = s_.queues,
                                  .policy = s_.policy.preemption,
                                  .now = now,
                                  .among = [&](JobIndex other) {
                                    return !stay.contains(other) &&
                                           (MayStop(other, entry.job) || MayMove(other));
                                  }};
    Rng own = OwnRng(entry.job);
    victims = FindVictims(input, job, PreemptMode::kMove, place, own);
    for (const Victim& victim : victims) {
      for (const MemberAt& member : victim.members) s_.Charge(victim.job, member.holding);  // it was refunded
    }
    places = s_.MembersOf(job);
    if (!draft_.LeaveOutSurplus(job, places)) victims.clear();  // beyond what its queue may have
  }
  trial.Rollback(mark);
  return victims;
}

// Other places for the victims, with the waiting job on its places. They are free already now, while the victims still
// hold their old places. Empty: `stuck` is a job that finds no place.
std::vector<Moves::Relocated> Moves::Relocate(JobIndex job, const std::vector<Victim>& victims,
                                              const std::vector<MemberAt>& places, OffNodes off,
                                              JobIndex& stuck) {
  Trial& trial = draft_.trial();
  const Trial::Mark mark = trial.mark();
  draft_.EvictAllLeaving();
  book_.AssignNominations();
  for (const Victim& victim : victims) trial.EvictJob(victim.job);
  Assign(trial, job, places);
  std::vector<Relocated> moves = MustLeave(victims);
  stuck = kNone;
  for (Relocated& move : moves) {
    NodeSet except = KeepOff(move.job);
    if (off == OffNodes::kYes) {
      for (const NodeId node : NodesOf(places)) except.Add(node);
    }
    if (FindPlaces(move, &except)) continue;
    stuck = move.job;
    break;
  }
  trial.Rollback(mark);
  for (size_t i = 0; i < moves.size() && stuck == kNone; ++i) {
    if (!AreFree(moves[i].to)) stuck = moves[i].job;
    if (stuck == kNone) Assign(trial, moves[i].job, moves[i].to);
  }
  trial.Rollback(mark);
  if (stuck != kNone) moves.clear();
  return moves;
}

bool Moves::TryFor(JobIndex job) {
  const uint32_t left = s_.MovesLeft();
  const JobEntry& waiting = s_.jobs[job];
  if (left == 0 || !waiting.job.pinned.empty() || searches_ == kSearches) return false;
  const conf::Duration gain = GainOf(job);
  if (gain < s_.policy.moves.least_gain) return false;
  ++searches_;
  std::set<JobIndex> stay;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::vector<MemberAt> places;
    const std::vector<Victim> victims = FindRoom(job, stay, places);
    if (victims.empty()) return false;
    JobIndex stuck = kNone;
    std::vector<Relocated> moves = Relocate(job, victims, places, OffNodes::kNo, stuck);
    // A place that is free once all have left may still be held now.
    if (moves.empty()) moves = Relocate(job, victims, places, OffNodes::kYes, stuck);
    if (moves.empty()) {
      if (stuck == kNone) return false;
      stay.insert(stuck);
      continue;
    }
    double cost = 0;
    for (const Relocated& move : moves) cost += MoveCost(s_.jobs[move.job], s_.jobs[move.job].device_milli);
    const double gained = conf::ToSeconds(gain) * static_cast<double>(waiting.device_milli) / kWholeDevice;
    if (moves.size() > left || cost >= gained) return false;
    for (const Relocated& move : moves) {
      Move(move, {"makes-way",
                  fmt::format("moves so that {} with {} fits, about {} earlier; {} {} for it, at {:.0f} "
                              "device-seconds against {:.0f} gained",
                              waiting.job.id, DevicesOf(waiting), conf::InWords(Rounded(gain)),
                              conf::Counted(moves.size(), "job"), moves.size() == 1 ? "moves" : "move", cost,
                              gained)});
    }
    for (const Victim& victim : victims) {
      if (IsFiller(s_.jobs[victim.job].job)) StopFiller(victim, waiting.job);
    }
    book_.Nominate(job, std::move(places));
    return true;
  }
  return false;
}

// Nothing has to leave a mended device.
uint32_t Moves::EmptiedOn(NodeId node) const {
  const auto emptied = s_.emptied_devices.find(node);
  const auto broken = s_.broken_devices.find(node);
  if (emptied == s_.emptied_devices.end() || broken == s_.broken_devices.end()) return 0;
  return emptied->second & broken->second;
}

void Moves::EmptyFaultyDevices() {
  if (s_.emptied_devices.empty()) return;
  std::map<uint64_t, JobIndex> leaving;  // by sequence
  for (const auto& [node, devices] : s_.emptied_devices) {
    for (const MemberId id : s_.state.on(node)) {
      const Member& member = s_.state.member(id);
      if ((member.holding.devices & EmptiedOn(node)) == 0) continue;
      const JobEntry& entry = s_.jobs[member.job];
      if (CanMove(member.job) && !HasMovedLately(entry)) leaving.emplace(entry.sequence, member.job);
    }
  }
  for (const auto& [sequence, job] : leaving) {
    if (s_.MovesLeft() == 0) return;
    const JobEntry& entry = s_.jobs[job];
    const bool whole = entry.job.work == WorkClass::kInference && IsRigid(entry.job);
    Relocated move{.job = job, .from = {}, .to = {}};
    std::vector<std::string> devices;
    for (const MemberId id : s_.state.of(job)) {
      const Member& member = s_.state.member(id);
      const uint32_t faulty = member.holding.devices & EmptiedOn(member.holding.node);
      if (faulty != 0 || whole) move.from.push_back(member);
      for (int d = 0; d < kMaxDevices; ++d) {
        if ((faulty >> d & 1) != 0)
          devices.push_back(
              fmt::format("device {} of {}", d, s_.state.cluster().nodes[member.holding.node].name));
      }
    }
    std::ranges::sort(move.from, {}, [](const Member& m) { return std::tuple(m.role, m.rank); });
    std::ranges::sort(devices);
    const NodeSet except = KeepOff(job);
    if (!FindPlacesBeside(move, &except)) continue;
    Move(move, {"device-fault", fmt::format("leaves {}, which {} a fault", fmt::join(devices, " and "),
                                            devices.size() == 1 ? "has" : "have")});
  }
}

// The members outside of the domain that holds most members move into it.
std::optional<Moves::Relocated> Moves::Gathered(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  const Cluster& cluster = s_.state.cluster();
  const auto level = std::ranges::find(cluster.fabric.levels, entry.job.topology.level);
  if (level == cluster.fabric.levels.end()) return std::nullopt;
  const auto wanted = static_cast<uint8_t>(level - cluster.fabric.levels.begin());
  std::map<DomainId, std::vector<Member>> by_domain;
  for (const MemberId id : s_.state.of(job)) {
    DomainId domain = cluster.nodes[s_.state.member(id).holding.node].domain;
    while (domain != kNone && cluster.fabric.domains[domain].level < wanted)
      domain = cluster.fabric.domains[domain].parent;
    by_domain[domain].push_back(s_.state.member(id));
  }
  if (by_domain.size() < 2) return std::nullopt;
  const auto most = std::ranges::max_element(by_domain, {}, [](const auto& of) { return of.second.size(); });
  Relocated move{.job = job, .from = {}, .to = {}};
  NodeSet except = KeepOff(job);
  const DomainId home = most->first;
  if (home == kNone) return std::nullopt;
  const std::span<const NodeId> inside = s_.state.nodes_under(home);
  NodeSet outside(cluster.nodes.size());
  for (NodeId node = 0; node < cluster.nodes.size(); ++node) outside.Add(node);
  for (const NodeId node : inside) outside.Remove(node);
  except.AddAll(outside);
  for (const auto& [domain, members] : by_domain) {
    if (domain != home) move.from.insert(move.from.end(), members.begin(), members.end());
  }
  std::ranges::sort(move.from, {}, [](const Member& m) { return std::tuple(m.role, m.rank); });
  if (!FindPlacesBeside(move, &except)) return std::nullopt;
  return move;
}

void Moves::BringTogether() {
  if (s_.MovesLeft() == 0 || !book_.empty()) return;
  const conf::TimePoint now = draft_.now();
  std::vector<JobIndex> apart;
  for (const auto& [sequence, job] : s_.running) {
    const JobEntry& entry = s_.jobs[job];
    const bool prefers = !entry.job.topology.level.empty() && !entry.job.topology.required;
    if (prefers && entry.members > 1 && entry.job.work != WorkClass::kInference && MayMove(job))
      apart.push_back(job);
  }
  for (const JobIndex job : apart) {
    if (s_.MovesLeft() == 0) return;
    const JobEntry& entry = s_.jobs[job];
    const conf::Duration left = ExpectedEnd(job) - now;
    const double cost = MoveCost(entry, kWholeDevice);
    if (cost > kMostOfRun * conf::ToSeconds(left)) continue;
    const std::optional<Relocated> move = Gathered(job);
    if (!move) continue;
    Move(*move,
         {"comes-together",
          fmt::format("moves {} so that all {} are below one {}; it stands still for {:.0f} s of the {} "
                      "that it is expected to run",
                      conf::Counted(move->from.size(), "member"), entry.members, entry.job.topology.level,
                      cost, conf::InWords(Rounded(left)))});
  }
}

}  // namespace scheduler
