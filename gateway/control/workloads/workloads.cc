#include "gateway/control/workloads/workloads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "conf/shown.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using scheduler::ActionKind;
using scheduler::MemberAt;

constexpr conf::Duration kLateEnd = std::chrono::seconds(2);  // after this, an ending member is late
// A member may exit because another one was lost; the end of the other is noticed within this time.
constexpr conf::Duration kFirstEnd = std::chrono::seconds(2);
// Of two that ended so near to each other, the one that a signal ended was the first: a cluster manager tells
// times to the second.
constexpr conf::Duration kSameTime = std::chrono::milliseconds(1500);
constexpr conf::TimePoint kNeverGone = conf::TimePoint::max();

bool SamePlace(const MemberAt& a, const MemberAt& b) {
  return a.role == b.role && a.rank == b.rank;
}

std::string HowResized(const Workload& workload, size_t members, const scheduler::Reason& why) {
  return fmt::format("continues with {} instead of {}: {}", conf::Counted(members, "member"),
                     workload.members.size(), why.text);
}

// The rank of the member that failed first: the others may have ended because of it. Of members that ended at about
// the same time, one that a signal ended comes before one that has exited.
std::optional<size_t> FirstFailed(const std::vector<Member>& members, bool may_end_well) {
  const auto gone = [](const Member& member) { return member.gone.value_or(kNeverGone); };
  std::optional<conf::TimePoint> earliest;
  const auto failed = [&](const Member& member) {
    return member.ended && !(may_end_well && member.ended_well());
  };
  for (const Member& member : members) {
    if (failed(member)) earliest = std::min(earliest.value_or(kNeverGone), gone(member));
  }
  std::optional<size_t> first;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    if (!failed(member) || gone(member) - *earliest > kSameTime) continue;
    const auto key = [&](size_t of) { return std::pair(!members[of].signal, gone(members[of])); };
    if (!first || key(rank) < key(*first)) first = rank;
  }
  return first;
}

}  // namespace

Workload* Workloads::Find(std::string_view id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

const Workload* Workloads::Find(std::string_view id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

Workload* Workloads::FindNumber(uint32_t number) {
  const auto at = std::ranges::find(workloads_, number, &Workload::number);
  return at == workloads_.end() ? nullptr : &*at;
}

std::vector<const Workload*> Workloads::WithPrefix(const std::string& prefix) const {
  std::vector<const Workload*> found;
  for (auto at = by_id_.lower_bound(prefix); at != by_id_.end() && at->first.starts_with(prefix); ++at)
    found.push_back(&*at->second);
  return found;
}

Workload& Workloads::Add(Workload workload) {
  Workload& added = workloads_.emplace_back(std::move(workload));
  added.number = ++last_number_;
  by_id_[added.id] = std::prev(workloads_.end());
  return added;
}

void Workloads::Drop(Workload& workload) {
  if (KindOf(workload).KeepsRuns()) {
    for (const Member& member : workload.members) to_forget_.push_back(member.run);
    for (const Member& member : workload.before) to_forget_.push_back(member.run);
  }
  context_.store->Remove(workload);
  const auto at = by_id_.find(workload.id);
  workloads_.erase(at->second);
  by_id_.erase(at);
}

void Workloads::Enter(Workload& workload, State state, std::string why, std::string actor) {
  workload.state = state;
  workload.outcome = Outcome::kNone;
  workload.since = context_.now();
  workload.why = std::move(why);
  workload.actor = std::move(actor);
  workload.recorded = workload.saved = false;
  workload.next_step = {};
  workload.unplaced.clear();
  workload.withheld = false;
  workload.serving.unpublished = {};
  workload.serving.idle = false;
  workload.serving.makes_room_for.clear();
  for (Member& member : workload.members) member.told = false;
  ++workload.version;
  log::Info("workload", {{"workload", workload.id}, {"state", Name(state)}, {"why", workload.why}});
  context_.wake();
}

void Workloads::Stop(Workload& workload, Outcome outcome, std::string why, std::string actor) {
  Enter(workload, State::kStopped, std::move(why), std::move(actor));
  workload.outcome = outcome;
  ++ended_;
  KindOf(workload).OnStopped(workload);
}

void Workloads::Place(Workload& workload, std::vector<MemberAt> members, std::string why) {
  std::ranges::sort(members, {}, [](const MemberAt& at) { return std::pair(at.role, at.rank); });
  for (const Member& member : workload.before) to_forget_.push_back(member.run);
  workload.before = std::exchange(workload.members, {});
  workload.next.clear();
  ++workload.attempt;
  workload.blameless = false;
  workload.started = context_.now();
  workload.ran_from = workload.checkpointed = {};
  workload.serving.arrival = {};
  workload.serving.phases = {};
  workload.serving.weights_known = false;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    Member& member = workload.members.emplace_back();
    member.at = members[rank];
    member.run = RunId(workload, rank);
  }
  Enter(workload, State::kPlaced, std::move(why));
}

void Workloads::Resize(Workload& workload, std::vector<MemberAt> next, std::string why) {
  if (!workload.holds()) return;
  if (workload.ends() && workload.afterwards > Afterwards::kResizes) return;
  workload.next = std::move(next);
  End(workload, Afterwards::kResizes, std::move(why));
}

void Workloads::MoveJob(Workload& job, std::vector<MemberAt> next, const scheduler::Reason& gain) {
  if (!job.holds() || (job.ends() && job.afterwards > Afterwards::kResizes)) return;
  std::vector<std::string> to;
  for (const MemberAt& at : next) {
    if (std::ranges::find(job.members, at, &Member::at) != job.members.end()) continue;
    if (std::string node = NodeOf(context_.cluster(), at); std::ranges::find(to, node) == to.end())
      to.push_back(std::move(node));
  }
  job.moved = context_.now();
  job.gain = gain.text;
  ++job_moves_;
  Resize(job, std::move(next), fmt::format("continues on {}: it {}", fmt::join(to, ", "), gain.text));
}

void Workloads::End(Workload& workload, Afterwards then, std::string why, std::string actor) {
  if (!workload.holds()) return;
  if (workload.ends() && then < workload.afterwards) return;
  const bool saves = KindOf(workload).Saves(workload, then);
  workload.afterwards = then;
  if (saves && workload.state == State::kRunning)
    return Enter(workload, State::kSaving, std::move(why), std::move(actor));
  if (workload.ends() && (saves || workload.state == State::kDraining)) {
    workload.why = std::move(why);
    workload.actor = std::move(actor);
    workload.recorded = workload.saved = false;
    ++workload.version;
    return context_.wake();
  }
  Enter(workload, State::kDraining, std::move(why), std::move(actor));
}

void Workloads::FallAsleep(Workload& replica, std::string why) {
  LeavePlanner(replica);
  for (Member& member : replica.members) {
    member.home = member.at;
    scheduler::Holding& holding = member.at.holding;
    holding = {.node = holding.node, .isolation = holding.isolation, .tenant = holding.tenant};
  }
  replica.adopted = false;
  Enter(replica, State::kAsleep, std::move(why));
  const int64_t memory = KindOf(replica).AskOf(replica).roles.front().ask.memory_mib;
  for (Member& member : replica.members) member.at.holding.memory_mib = memory;
  AskPlanner(replica);
}

void Workloads::SetWake(Workload& replica, bool wanted, std::string why) {
  if (replica.state != State::kAsleep || replica.wants_to_wake == wanted) return;
  LeavePlanner(replica);
  replica.wants_to_wake = wanted;
  replica.serving.wake_asked = context_.now();
  replica.why = std::move(why);
  replica.unplaced.clear();
  AskPlanner(replica);
}

// It has its devices.
void Workloads::WakeUp(Workload& replica, std::string why) {
  for (Member& member : replica.members) {
    if (member.home) member.at = *std::exchange(member.home, std::nullopt);
  }
  replica.wants_to_wake = false;
  replica.wakes = replica.serving.woken = true;
  replica.adopted = false;
  replica.held_from = replica.started = context_.now();
  Enter(replica, State::kStarting, std::move(why));
}

void Workloads::StopSaving(Workload& workload) {
  const bool recorded = workload.recorded;
  Enter(workload, State::kDraining, workload.why, workload.actor);
  workload.recorded = recorded;
}

void Workloads::Settle(Workload& workload) {
  const conf::TimePoint now = context_.now();
  const Afterwards then = workload.afterwards;
  if (workload.checkpointed != conf::TimePoint()) workload.resumes = true;
  workload.done = workload.kept();
  if (workload.kind == Kind::kJob) workload.device_seconds = workload.DeviceSeconds(context_.cluster(), now);
  std::string why = workload.why;
  std::string actor = workload.actor;
  scheduler::Planner& planner = context_.planning->planner();
  const scheduler::JobIndex index = planner.jobs().Find(workload.id);
  if (index != scheduler::kNone) {
    const scheduler::Phase phase = planner.jobs()[index].phase;
    context_.planning->Changed();
    if (then == Afterwards::kResizes && phase == scheduler::Phase::kRunning) {
      planner.Moved(index, now);
      return Place(workload, std::exchange(workload.next, {}), std::move(why));
    }
    if (phase == scheduler::Phase::kStopping) planner.Stopped(index, now);
  }
  switch (then) {
    case Afterwards::kSleeps:  // its members have ended before it slept
      LeavePlanner(workload);
      return Stop(workload, Outcome::kDone, std::move(why), std::move(actor));
    case Afterwards::kResizes:
    case Afterwards::kWaits:
    case Afterwards::kRetries:
      if (std::exchange(workload.blameless, false)) {
        LeavePlanner(workload);
        Enter(workload, State::kPending, std::move(why), std::move(actor));
        return AskPlanner(workload);
      }
      if (then == Afterwards::kRetries && workload.restarts++ >= workload.file().job.restart_budget) {
        context_.planning->End(workload.id, now);
        return Stop(workload, Outcome::kFailed,
                    fmt::format("{}; its {} restarts are used up", why, workload.restarts - 1),
                    std::move(actor));
      }
      if (then == Afterwards::kRetries) {
        LeavePlanner(workload);  // until it may start again
        const bool ran = workload.ran_from != conf::TimePoint();
        workload.crashes.Failed(why, ran ? now - workload.ran_from : conf::Duration::zero(), now);
      }
      Enter(workload, State::kPending, std::move(why), std::move(actor));
      if (!context_.planning->Knows(workload.id)) AskPlanner(workload);
      return;
    case Afterwards::kSuspends:
      LeavePlanner(workload);
      return Stop(workload, Outcome::kSuspended, std::move(why), std::move(actor));
    case Afterwards::kEnds:
      context_.planning->End(workload.id, now);
      return Stop(workload, Outcome::kDone, std::move(why), std::move(actor));
    case Afterwards::kFails:
      context_.planning->End(workload.id, now);
      return Stop(workload, Outcome::kFailed, std::move(why), std::move(actor));
    case Afterwards::kCancels:
      context_.planning->End(workload.id, now);
      return Stop(workload, Outcome::kCancelled, std::move(why), std::move(actor));
  }
}

void Workloads::AskPlanner(Workload& workload) {
  WorkloadKind& kind = KindOf(workload);
  if (kind.MayBePlaced(workload)) context_.planning->Submit(kind.AskOf(workload), context_.now());
}

// Whatever the planner still assumes about the workload.
void Workloads::LeavePlanner(const Workload& workload) {
  context_.planning->Leave(workload.id, context_.now());
}

void Workloads::NoteWaiting(const std::vector<std::pair<std::string, scheduler::Reason>>& waiting) {
  std::map<const Submission*, const std::string*> of_arrays;
  for (const auto& [id, reason] : waiting) {
    Workload* const waits = Find(id);
    if (waits == nullptr) continue;
    waits->unplaced = reason.text;
    if (waits->kind == Kind::kJob && waits->file().elements > 0) of_arrays[waits->of.get()] = &reason.text;
  }
  if (of_arrays.empty()) return;
  for (Workload& workload : workloads_) {
    const bool waits = workload.kind == Kind::kJob && workload.state == State::kPending && !workload.held &&
                       !workload.withheld;
    if (!waits) continue;
    if (const auto reason = of_arrays.find(workload.of.get()); reason != of_arrays.end())
      workload.unplaced = *reason->second;
  }
}

void Workloads::Apply(const scheduler::Action& action) {
  Workload* const workload = Find(action.job);
  if (workload == nullptr) return;
  switch (action.kind) {
    case ActionKind::kStart:
      if (workload->state == State::kAsleep) {
        if (workload->wants_to_wake) WakeUp(*workload, fmt::format("{}; {}", workload->why, action.why.text));
        return;
      }
      if (workload->state == State::kPending) {
        const bool explained = workload->kind == Kind::kReplica;
        return Place(*workload, action.members,
                     explained ? fmt::format("{}; {}", workload->why, action.why.text) : action.why.text);
      }
      [[fallthrough]];
    case ActionKind::kMove: {
      const bool moves = action.kind == ActionKind::kMove;
      if (moves && workload->kind == Kind::kReplica) {
        if (move_replica(*workload, action)) return;
        return context_.planning->Unmove(action.job, context_.now());
      }
      std::vector<MemberAt> next =
          workload->afterwards == Afterwards::kResizes ? workload->next : std::vector<MemberAt>();
      if (next.empty()) {
        for (const Member& member : workload->members) next.push_back(member.at);
      }
      for (const MemberAt& to : action.members) {
        std::erase_if(next, [&](const MemberAt& at) { return SamePlace(at, to); });
        next.push_back(to);
      }
      if (moves) return MoveJob(*workload, std::move(next), action.why);
      std::string how = HowResized(*workload, next.size(), action.why);
      return Resize(*workload, std::move(next), std::move(how));
    }
    case ActionKind::kShrink: {
      std::vector<MemberAt> next;
      for (const Member& member : workload->members) {
        if (std::ranges::find(action.members, member.at) == action.members.end()) next.push_back(member.at);
      }
      std::string how = HowResized(*workload, next.size(), action.why);
      return Resize(*workload, std::move(next), std::move(how));
    }
    case ActionKind::kPreempt: {
      // A replica for batches: another one starts when lines have waited again.
      const bool ends = workload->kind == Kind::kReplica;
      return End(*workload, ends ? Afterwards::kEnds : Afterwards::kWaits, action.why.text);
    }
    case ActionKind::kSuspend:
      return End(*workload, Afterwards::kSuspends, action.why.text);
    case ActionKind::kStop:
      if (!workload->holds()) return Stop(*workload, Outcome::kFailed, action.why.text);
      return End(*workload, Afterwards::kFails, action.why.text);
  }
}

void Workloads::Reconcile(Workload& workload) {
  const conf::TimePoint now = context_.now();
  WorkloadKind& kind = KindOf(workload);
  if (WasDoneBefore(workload)) {
    workload.afterwards = Afterwards::kEnds;
    workload.why = "its members have done their work";
  }
  if (workload.state == State::kDraining) {
    for (Member& member : workload.members) {
      if (!IsGivenUp(workload, member)) continue;
      member.ended = true;
      member.gone = now;
      member.why =
          fmt::format("{} does not answer; it counts as ended", NodeOf(context_.cluster(), member.at));
    }
    if (!workload.all_ended()) return;
    workload.next_step = {};
    return context_.wake();
  }
  const bool by_itself = kind.EndsByItself();
  if (workload.state == State::kSaving && by_itself) {
    const auto out = [&](const Member& member) { return member.ended || IsGivenUp(workload, member); };
    if (!std::ranges::all_of(workload.members, out)) return;
    kind.OnSaved(workload, now);
    return StopSaving(workload);
  }
  if (!workload.holds() || workload.members.empty()) return;
  if (by_itself && std::ranges::all_of(workload.members, &Member::ended_well))
    return End(workload, Afterwards::kEnds, "its members have done their work");
  if (const std::optional<size_t> rank = FirstFailed(workload.members, by_itself)) {
    const Member& member = workload.members[*rank];
    const bool gang = workload.kind == Kind::kReplica && workload.members.size() > 1;
    const bool may_follow = gang && !member.signal && !workload.all_ended();
    if (may_follow && member.noticed && now - *member.noticed < kFirstEnd) return;
    std::string how = HowEnded(member);
    if (workload.kind == Kind::kReplica && !member.log.empty())
      how += fmt::format(" (its output: {})", member.log);
    std::string who = fmt::format("member {}", *rank);
    if (workload.kind == Kind::kReplica)
      who = gang ? fmt::format("member {} on {}", *rank, NodeOf(context_.cluster(), member.at)) : "it";
    return kind.Fail(workload, fmt::format("{} {}", who, how), Blame::kWorkload);
  }
  const auto there = [](const Member& member) { return member.running || member.ended; };
  if (workload.state == State::kStarting && std::ranges::all_of(workload.members, there))
    kind.OnMembersUp(workload);
}

void Workloads::OnDeviceLost(const plugins::launchers::DeviceFault& fault) {
  std::vector<std::string> ids;  // a failure may drop a workload
  for (const Workload& workload : workloads_) {
    // A workload that saves by itself may finish its save.
    const bool ends = workload.state == State::kDraining ||
                      (workload.state == State::kSaving && KindOf(workload).EndsByItself());
    if (workload.holds() && !ends) ids.push_back(workload.id);
  }
  for (const std::string& id : ids) {
    Workload& workload = *Find(id);
    for (size_t rank = 0; rank < workload.members.size(); ++rank) {
      const MemberAt& at = workload.members[rank].at;
      if (NodeOf(context_.cluster(), at) != fault.node || (at.holding.devices >> fault.device & 1) == 0)
        continue;
      KindOf(workload).Fail(
          workload,
          fmt::format("member {} has lost device {} of {}: {}", rank, fault.device, fault.node, fault.why),
          Blame::kPlace);
      break;
    }
  }
}

std::vector<std::string> Workloads::HoldersOf(const std::string& node, uint8_t device) const {
  std::vector<std::string> ids;
  for (const Workload& workload : workloads_) {
    const auto on_it = [&](const Member& member) {
      return NodeOf(context_.cluster(), member.at) == node && (member.at.holding.devices >> device & 1) != 0;
    };
    if (workload.holds() && std::ranges::any_of(workload.members, on_it)) ids.push_back(workload.id);
  }
  return ids;
}

// For a workload that makes room and returns: it has ended well before it was signalled. After a restart it
// is not known which members were signalled.
bool Workloads::WasDoneBefore(const Workload& workload) const {
  return workload.ends() && workload.afterwards < Afterwards::kEnds && !workload.adopted &&
         KindOf(workload).EndsByItself() &&
         std::ranges::all_of(
             workload.members, [](const Member& member) { return member.ended_well() && !member.signalled; });
}

bool Workloads::IsLate(const Workload& workload, const Member& member) const {
  return workload.ends() && member.told && !member.ended && context_.now() - workload.since >= kLateEnd;
}

std::vector<std::string> Workloads::LateNodes() const {
  std::vector<std::string> nodes;
  for (const Workload& workload : workloads_) {
    if (!KindOf(workload).GivesUpSilentMembers()) continue;
    for (const Member& member : workload.members) {
      if (IsLate(workload, member)) nodes.push_back(NodeOf(context_.cluster(), member.at));
    }
  }
  return nodes;
}

// A member on a node that does not answer ends only when the manager gives the node up; the devices of the
// other members must not wait for that. Nothing new is placed on the node, and the manager keeps its devices
// reserved.
bool Workloads::IsGivenUp(const Workload& workload, const Member& member) const {
  return KindOf(workload).GivesUpSilentMembers() && IsLate(workload, member) &&
         untrusted(NodeOf(context_.cluster(), member.at));
}

// From the first member's start to the last one's end: a member that has ended keeps its devices until the
// others have ended. Before the launcher reports the start, from when it was called.
std::vector<HeldDevices> Workloads::Held(conf::TimePoint no_later) const {
  std::vector<HeldDevices> held;
  const scheduler::Cluster& cluster = context_.cluster();
  const conf::TimePoint now = context_.now();
  for (const Workload& workload : workloads_) {
    if (workload.kind == Kind::kOrphan || !workload.holds() || !workload.asked()) continue;
    std::map<std::string, int64_t> milli;
    std::map<std::string, std::vector<HeldPlace>> places;
    std::optional<conf::TimePoint> began;
    std::optional<conf::TimePoint> gone;
    std::optional<conf::TimePoint> alive;
    for (const Member& member : workload.members) {
      const std::optional<conf::TimePoint>& seen = member.gone ? member.gone : member.alive;
      if (seen) alive = std::max(alive.value_or(*seen), *seen);
      if (member.began) began = std::min(began.value_or(*member.began), *member.began);
      if (member.gone) gone = std::max(gone.value_or(*member.gone), *member.gone);
      if (member.at.holding.node >= cluster.nodes.size()) continue;
      const plugins::launchers::DeviceGrant grant = GrantOf(cluster, member.at.holding);
      if (grant.kind.empty() || grant.devices.empty()) continue;
      const int64_t held_milli = HeldMilli(cluster, grant);
      milli[grant.kind] += held_milli;
      for (const uint8_t device : grant.devices)
        places[grant.kind].push_back(
            {grant.node, device, held_milli / static_cast<int64_t>(grant.devices.size())});
    }
    // The launcher has reported no process yet.
    if (!began && !alive && workload.state != State::kRunning) continue;
    if (!workload.all_ended()) gone.reset();
    const conf::TimePoint since = std::max(began.value_or(workload.started), workload.held_from);
    for (const auto& [kind, sum] : milli) {
      HeldDevices& holding = held.emplace_back();
      holding.kind = kind;
      holding.milli = sum;
      holding.places = std::move(places[kind]);
      holding.since = since <= now ? since : no_later;
      holding.until = gone;
      holding.alive = alive;
      if (workload.kind == Kind::kJob) {
        holding.job = workload.id;
        holding.tenant = workload.file().job.tenant;
      } else {
        holding.run = workload.id;
        holding.model = workload.model;
      }
    }
  }
  return held;
}

std::vector<scheduler::Holding> Workloads::Holdings() const {
  std::vector<scheduler::Holding> out;
  for (const Workload& workload : workloads_) {
    if (!workload.holds()) continue;
    for (const Member& member : workload.members) {
      if (member.at.holding.node != scheduler::kNone) out.push_back(member.at.holding);
    }
    for (const scheduler::MemberAt& at : workload.next) {
      if (at.holding.node != scheduler::kNone) out.push_back(at.holding);
    }
  }
  return out;
}

void Workloads::Renumber(const std::vector<scheduler::NodeId>& places) {
  const auto move = [&](scheduler::MemberAt& at) {
    scheduler::NodeId& node = at.holding.node;
    if (node < places.size()) node = places[node];
  };
  for (Workload& workload : workloads_) {
    for (Member& member : workload.members) {
      move(member.at);
      if (member.home) move(*member.home);
    }
    for (Member& member : workload.before) move(member.at);
    for (scheduler::MemberAt& at : workload.next) move(at);
  }
}

scheduler::JobState Workloads::RestoredJobOf(const Workload& workload) const {
  scheduler::JobState restored;
  restored.job = KindOf(workload).AskOf(workload);
  restored.restarts = workload.restarts;
  restored.moved = workload.moved;
  if (!workload.holds()) return restored;
  restored.phase = scheduler::Phase::kRunning;
  restored.started = workload.started;
  restored.checkpointed = std::max(workload.started, workload.checkpointed);
  if (workload.ends() && workload.afterwards == Afterwards::kResizes) {
    restored.members = workload.next;
    for (const Member& member : workload.members) {
      if (std::ranges::find(workload.next, member.at) == workload.next.end())
        restored.leaving.push_back(member.at);
    }
    return restored;
  }
  for (const Member& member : workload.members) restored.members.push_back(member.at);
  if (workload.ends() && workload.afterwards == Afterwards::kWaits) {
    restored.phase = scheduler::Phase::kStopping;
    restored.after_stop = scheduler::AfterStop::kWaits;
    restored.stops_at = context_.now();
  }
  return restored;
}

}  // namespace gateway::control
