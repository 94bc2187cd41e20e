#include "gateway/control/jobs/jobs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "gateway/log.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunState;
using plugins::launchers::RunStatus;
using scheduler::ActionKind;
using scheduler::MemberAt;

constexpr size_t kMaxWrites = 4096;  // that wait for each other
constexpr conf::Duration kMissing = std::chrono::seconds(3);
constexpr conf::Duration kLate = std::chrono::seconds(2);  // to end, once told
constexpr conf::Duration kLookWhileSaving = std::chrono::seconds(1);
constexpr conf::Duration kLookElse = std::chrono::seconds(15);

bool SamePlace(const MemberAt& a, const MemberAt& b) {
  return a.role == b.role && a.rank == b.rank;
}

std::string WhyEnded(size_t rank, const JobMember& member) {
  std::string how = member.exit_code ? fmt::format("member {} exited with {}", rank, *member.exit_code)
                                     : fmt::format("member {} ended", rank);
  if (!member.why.empty()) how += ": " + member.why;
  return how;
}

std::optional<conf::TimePoint> ChangedAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return conf::TimePoint(std::chrono::seconds(info.st_mtim.tv_sec) +
                         std::chrono::nanoseconds(info.st_mtim.tv_nsec));
}

}  // namespace

Jobs::Jobs(JobsAround around) : around_(std::move(around)), journal_(around_.file), writes_(kMaxWrites) {}

const Job* Jobs::Find(const std::string& id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

Job* Jobs::Get(const std::string& id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

Job& Jobs::Add(Job job) {
  jobs_.push_back(std::move(job));
  by_id_[jobs_.back().id] = std::prev(jobs_.end());
  return jobs_.back();
}

void Jobs::Enter(Job& job, JobState state, std::string why, std::string actor) {
  job.state = state;
  job.since = around_.now();
  job.why = std::move(why);
  job.actor = std::move(actor);
  job.recorded = job.saved = false;
  job.next_step = {};
  job.unplaced.clear();
  job.withheld = false;
  for (JobMember& member : job.members) member.told = false;
  ++job.version;
  some_ended_ |= IsOver(state);
  log::Info("job", {{"job", job.id}, {"state", Name(state)}, {"why", job.why}});
  around_.wake();
}

void Jobs::AskPlanner(Job& job) {
  const conf::TimePoint now = around_.now();
  job.held = !job.crashes.MayStart(now) || !Awaits(job).empty();
  if (job.held) return;
  if (std::string why = UsedUp(job.file()); !why.empty()) {
    job.withheld = true;
    job.unplaced = std::move(why);
    return;
  }
  around_.planner().Submit(AskOf(job), now);
  around_.changed();
}

Jobs::Outcome Jobs::OutcomeOf(const std::string& name) const {
  Outcome all = Outcome::kDone;  // what is forgotten had ended well, or this would have failed by then
  const auto count = [&all](const Job& job) {
    if (job.state == JobState::kFailed || job.state == JobState::kCancelled) all = Outcome::kFailed;
    if (!IsOver(job.state) && all == Outcome::kDone) all = Outcome::kOpen;
  };
  if (const Job* const job = Find(name)) count(*job);
  const std::string elements = name + ".";
  for (auto at = by_id_.lower_bound(elements); at != by_id_.end() && at->first.starts_with(elements); ++at)
    count(*at->second);
  return all;
}

std::vector<std::string> Jobs::Awaits(const Job& job) const {
  std::vector<std::string> names;
  for (const std::string& name : job.file().job.after) {
    if (OutcomeOf(name) != Outcome::kDone) names.push_back(name);
  }
  return names;
}

// Those for which what they wait for has come, or never will.
void Jobs::LookAtHeld() {
  const conf::TimePoint now = around_.now();
  const bool some_ended = std::exchange(some_ended_, false);
  std::map<std::string_view, Outcome> outcomes;  // many come after the same array
  for (Job& job : jobs_) {
    if (job.state != JobState::kPending || !job.held || !job.crashes.MayStart(now)) continue;
    if (!some_ended && job.crashes.failures() == 0) continue;
    bool open = false;
    for (const std::string& name : job.file().job.after) {
      const auto [at, added] = outcomes.try_emplace(name);
      if (added) at->second = OutcomeOf(name);
      open |= at->second == Outcome::kOpen;
      if (at->second != Outcome::kFailed) continue;
      Enter(job, JobState::kFailed, fmt::format("{}, which it comes after, did not end well", name));
      break;
    }
    if (!open && job.state == JobState::kPending) AskPlanner(job);
  }
}

// Whatever the planner still thinks of it.
void Jobs::LeavePlanner(const Job& job) {
  scheduler::Planner& planner = around_.planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    planner.Ended(index, around_.now());
    around_.changed();
  }
}

void Jobs::Apply(const scheduler::Action& action) {
  Job* const job = Get(action.job);
  if (job == nullptr) return;
  switch (action.kind) {
    case ActionKind::kStart:
      if (job->state == JobState::kPending) return Begin(*job, action.members, action.why.text);
      [[fallthrough]];
    case ActionKind::kMove: {
      std::vector<MemberAt> next =
          job->afterwards == Afterwards::kResizes ? job->next : std::vector<MemberAt>();
      if (next.empty()) {
        for (const JobMember& member : job->members) next.push_back(member.at);
      }
      for (const MemberAt& to : action.members) {
        std::erase_if(next, [&](const MemberAt& at) { return SamePlace(at, to); });
        next.push_back(to);
      }
      return Resize(*job, std::move(next), action.why);
    }
    case ActionKind::kShrink: {
      std::vector<MemberAt> next;
      for (const JobMember& member : job->members) {
        if (std::ranges::find(action.members, member.at) == action.members.end()) next.push_back(member.at);
      }
      return Resize(*job, std::move(next), action.why);
    }
    case ActionKind::kPreempt:
      return End(*job, Afterwards::kWaits, action.why.text);
    case ActionKind::kSuspend:
      return End(*job, Afterwards::kSuspends, action.why.text);
    case ActionKind::kStop:
      if (!job->holds()) return Enter(*job, JobState::kFailed, action.why.text);
      return End(*job, Afterwards::kFails, action.why.text);
  }
}

void Jobs::Unplaced(const std::string& job, std::string why) {
  if (Job* const waits = Get(job)) waits->unplaced = std::move(why);
}

void Jobs::Begin(Job& job, std::vector<MemberAt> members, std::string why) {
  std::ranges::sort(members, {}, [](const MemberAt& at) { return std::pair(at.role, at.rank); });
  for (const JobMember& member : job.before) to_forget_.push_back(member.run);
  job.before = std::move(job.members);
  job.members.clear();
  job.next.clear();
  ++job.attempt;
  job.blameless = false;
  job.checkpointed = job.ran_from = {};
  job.started = around_.now();
  for (const MemberAt& at : members) {
    const auto rank = static_cast<uint32_t>(job.members.size());
    job.members.push_back({.at = at, .run = RunId(job, rank)});
  }
  Enter(job, JobState::kStarting, std::move(why));
}

void Jobs::Resize(Job& job, std::vector<MemberAt> next, const scheduler::Reason& why) {
  if (!job.holds()) return;
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  if (ends && job.afterwards > Afterwards::kResizes) return;
  job.next = std::move(next);
  End(job, Afterwards::kResizes,
      fmt::format("goes on with {} members instead of {}: {}", job.next.size(), job.members.size(),
                  why.text));
}

// Its members end, after they have saved where that is worth while and there is time for it.
void Jobs::End(Job& job, Afterwards then, std::string why, std::string actor) {
  if (!job.holds()) return;
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  if (ends && then < job.afterwards) return;
  const bool comes_back =
      then == Afterwards::kResizes || then == Afterwards::kWaits || then == Afterwards::kSuspends;
  // At its limit it may still save what it has: somebody may hand it in again.
  const bool saves = (comes_back || then == Afterwards::kFails) && job.file().checkpoint.given;
  job.afterwards = then;
  if (saves && job.state == JobState::kRunning)
    return Enter(job, JobState::kSaving, std::move(why), std::move(actor));
  if (ends && (saves || job.state == JobState::kStopping)) {
    job.why = std::move(why);
    job.actor = std::move(actor);
    job.recorded = job.saved = false;
    ++job.version;
    return around_.wake();
  }
  Enter(job, JobState::kStopping, std::move(why), std::move(actor));
}

// All members have ended: what is to become of it.
void Jobs::Settle(Job& job) {
  const conf::TimePoint now = around_.now();
  scheduler::Planner& planner = around_.planner();
  const Afterwards then = job.afterwards;
  if (job.checkpointed != conf::TimePoint()) job.resumes = true;
  const std::string why = job.why;
  const std::string actor = job.actor;
  if (then == Afterwards::kResizes) {
    const scheduler::JobIndex index = planner.jobs().Find(job.id);
    if (index != scheduler::kNone && planner.jobs()[index].phase == scheduler::Phase::kRunning) {
      planner.Moved(index, now);
      around_.changed();
      return Begin(job, std::exchange(job.next, {}), why);
    }
  }
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    around_.changed();
    if (planner.jobs()[index].phase == scheduler::Phase::kStopping) {
      planner.Stopped(index, now);
    }
  }
  switch (then) {
    case Afterwards::kResizes:
    case Afterwards::kWaits:
    case Afterwards::kRetries:
      if (std::exchange(job.blameless, false)) {
        LeavePlanner(job);
        Enter(job, JobState::kPending, why, actor);
        return AskPlanner(job);
      }
      if (then == Afterwards::kRetries && job.restarts++ >= job.file().job.restart_budget) {
        LeavePlanner(job);
        return Enter(job, JobState::kFailed,
                     fmt::format("{}; its {} restarts are used up", why, job.restarts - 1), actor);
      }
      if (then == Afterwards::kRetries) {
        LeavePlanner(job);  // until it may start again
        const bool ran = job.ran_from != conf::TimePoint();
        job.crashes.Failed(why, ran ? now - job.ran_from : conf::Duration::zero(), now);
      }
      Enter(job, JobState::kPending, why, actor);
      if (planner.jobs().Find(job.id) == scheduler::kNone) AskPlanner(job);
      return;
    case Afterwards::kSuspends:
      LeavePlanner(job);
      return Enter(job, JobState::kSuspended, why, actor);
    case Afterwards::kEnds:
      LeavePlanner(job);
      return Enter(job, JobState::kDone, why, actor);
    case Afterwards::kFails:
      LeavePlanner(job);
      return Enter(job, JobState::kFailed, why, actor);
    case Afterwards::kCancels:
      LeavePlanner(job);
      return Enter(job, JobState::kCancelled, why, actor);
  }
}

void Jobs::Observe(const std::vector<RunStatus>& runs) {
  const conf::TimePoint now = around_.now();
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) {
    if (IsJobRun(run.id)) by_id.emplace(run.id, &run);
  }
  for (Job& job : jobs_) {
    for (const JobMember& member : job.before) by_id.erase(member.run);
    for (JobMember& member : job.members) {
      const auto found = by_id.find(member.run);
      if (found == by_id.end()) {
        if (!job.holds() || member.ended || !member.started) continue;
        if (!member.missing) member.missing = now;
        if (now - *member.missing < kMissing) continue;
        member.ended = true;
        member.why = "it is not there any more";
        continue;
      }
      const RunStatus& run = *found->second;
      by_id.erase(found);
      member.missing.reset();
      member.log = run.log;
      if (!job.holds() || member.ended) continue;
      member.running = run.state == RunState::kRunning;
      if (run.state != RunState::kEnded) {
        if (!run.why.empty()) member.why = run.why;
        continue;
      }
      member.ended = true;
      member.exit_code = run.exit_code;
      member.why = run.signal
                       ? fmt::format("by signal {}{}{}", *run.signal, run.why.empty() ? "" : ", ", run.why)
                       : run.why;
    }
    if (job.holds()) Look(job);
  }
  for (const auto& [id, run] : by_id) {
    if (!closing_ && orphans_.insert(std::string(id)).second)
      around_.spawn(EndOrphan(std::string(id), run->state == RunState::kEnded));
  }
}

void Jobs::Lose(const plugins::launchers::DeviceFault& fault) {
  const scheduler::Cluster& cluster = *around_.cluster;
  for (Job& job : jobs_) {
    if (job.state != JobState::kStarting && job.state != JobState::kRunning) continue;
    for (size_t rank = 0; rank < job.members.size(); ++rank) {
      const scheduler::Holding& holding = job.members[rank].at.holding;
      if (holding.node >= cluster.nodes.size() || cluster.nodes[holding.node].name != fault.node) continue;
      if ((holding.devices >> fault.device & 1) == 0) continue;
      job.blameless = true;
      End(job, Afterwards::kRetries,
          fmt::format("member {} has lost device {} of {}: {}", rank, fault.device, fault.node, fault.why));
      break;
    }
  }
}

std::string Jobs::NodeOf(const JobMember& member) const {
  const scheduler::NodeId node = member.at.holding.node;
  return node < around_.cluster->nodes.size() ? around_.cluster->nodes[node].name : std::string();
}

bool Jobs::IsLate(const Job& job, const JobMember& member) const {
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  return ends && member.told && !member.ended && around_.now() - job.since >= kLate;
}

std::vector<std::string> Jobs::LateNodes() const {
  std::vector<std::string> nodes;
  for (const Job& job : jobs_) {
    for (const JobMember& member : job.members) {
      if (IsLate(job, member)) nodes.push_back(NodeOf(member));
    }
  }
  return nodes;
}

// A member that is told to end on a node that does not answer ends when its manager gives the node up; what
// the others held is not to wait for that. Nothing new is placed there, and the manager keeps its devices
// for it.
bool Jobs::IsGivenUp(const Job& job, const JobMember& member) const {
  return IsLate(job, member) && around_.untrusted(NodeOf(member));
}

// What its members have come to.
void Jobs::Look(Job& job) {
  const conf::TimePoint now = around_.now();
  if (job.state == JobState::kStopping) {
    for (JobMember& member : job.members) {
      if (!IsGivenUp(job, member)) continue;
      member.ended = true;
      member.why = fmt::format("{} does not answer; it ends with it", NodeOf(member));
    }
  }
  const bool coming = job.state == JobState::kStarting;
  if (coming || job.state == JobState::kRunning) {
    if (!job.members.empty() && std::ranges::all_of(job.members, &JobMember::ended_well)) {
      return End(job, Afterwards::kEnds, "its members have done their work");
    }
    for (size_t rank = 0; rank < job.members.size(); ++rank) {
      const JobMember& member = job.members[rank];
      if (!member.ended || member.ended_well()) continue;
      return End(job, Afterwards::kRetries, WhyEnded(rank, member));
    }
  }
  if (coming) {
    const auto there = [](const JobMember& m) { return m.running || m.ended; };
    if (std::ranges::all_of(job.members, there)) {
      job.ran_from = now;
      Enter(job, JobState::kRunning, job.why);
    } else if (now - job.since > job.file().start_timeout) {
      const auto late = std::ranges::find_if_not(job.members, there);
      End(job, Afterwards::kRetries,
          fmt::format("member {} does not run within {}{}{}", late - job.members.begin(),
                      conf::FormatDuration(job.file().start_timeout), late->why.empty() ? "" : ": ",
                      late->why));
    }
  } else if (job.state == JobState::kSaving && std::ranges::all_of(job.members, [&](const JobMember& member) {
               return member.ended || IsGivenUp(job, member);
             })) {
    SavedNow(job, now);
    const bool recorded = job.recorded;
    Enter(job, JobState::kStopping, job.why, job.actor);
    job.recorded = recorded;
  } else if (job.state == JobState::kStopping && job.all_ended()) {
    job.next_step = {};
    around_.wake();
  }
}

void Jobs::SavedNow(Job& job, conf::TimePoint at) {
  job.checkpointed = at;
  scheduler::Planner& planner = around_.planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone)
    planner.Checkpointed(index, at);
}

// What time alone brings about.
void Jobs::Tick() {
  const conf::TimePoint now = around_.now();
  bool saving = false;
  for (Job& job : jobs_) {
    if (job.state == JobState::kStarting) {
      Look(job);
    } else if (job.state == JobState::kRunning) {
      const config::JobCheckpoint& by = job.file().checkpoint;
      const conf::Duration interval = job.file().job.checkpoint.interval;
      if (by.given && by.saved.empty() && now - std::max(job.checkpointed, job.since) >= interval)
        SavedNow(job, now);
    } else if (job.state == JobState::kSaving) {
      saving |= !job.file().checkpoint.saved.empty();
      if (now - job.since < job.file().checkpoint.grace) continue;
      if (job.file().checkpoint.saved.empty()) SavedNow(job, now);
      const bool recorded = job.recorded;
      Enter(job, JobState::kStopping, job.why, job.actor);
      job.recorded = recorded;
    }
  }
  if (saving) next_files_ = std::min(next_files_, now + kLookWhileSaving);
  if (!looking_ && !closing_ && now >= next_files_) {
    next_files_ = now + kLookElse;
    around_.spawn(LookAtFiles());
  }
  LookAtHeld();
  LookAtBudgets();
  DropOver();
}

// Whose change says that all is saved, or that somebody uses a notebook.
net::Task<void> Jobs::LookAtFiles() {
  struct Watched {
    std::string job;
    std::string path;
    std::optional<conf::TimePoint> changed{};
  };
  std::vector<Watched> watched;
  for (const Job& job : jobs_) {
    if (job.state != JobState::kRunning && job.state != JobState::kSaving) continue;
    if (job.file().job.work == scheduler::WorkClass::kNotebook) {
      const std::string& path = job.file().activity.empty() ? job.members.front().log : job.file().activity;
      if (!path.empty()) watched.push_back({job.id, path});
    } else if (!job.file().checkpoint.saved.empty()) {
      watched.push_back({job.id, job.file().checkpoint.saved});
    }
  }
  if (watched.empty()) co_return;
  looking_ = true;
  ++under_way_;
  const absl::Status looked = co_await around_.off_loop([&watched] {
    for (Watched& one : watched) one.changed = ChangedAt(one.path);
    return absl::OkStatus();
  });
  --under_way_;
  looking_ = false;
  if (!looked.ok()) co_return;
  for (const Watched& one : watched) {
    Job* const job = Get(one.job);
    if (job == nullptr || !one.changed || !job->holds()) continue;
    scheduler::Planner& planner = around_.planner();
    const scheduler::JobIndex index = planner.jobs().Find(job->id);
    if (job->file().job.work == scheduler::WorkClass::kNotebook) {
      if (index != scheduler::kNone) planner.Idle(index, std::max(*one.changed, job->since));
      continue;
    }
    if (*one.changed <= std::max(job->checkpointed, job->started)) continue;
    SavedNow(*job, *one.changed);
    if (job->state != JobState::kSaving || *one.changed < job->since) continue;
    const bool recorded = job->recorded;
    Enter(*job, JobState::kStopping, job->why, job->actor);
    job->recorded = recorded;
  }
}

// Those that are over longest go when there are too many.
void Jobs::DropOver() {
  size_t over =
      static_cast<size_t>(std::ranges::count_if(jobs_, [](const Job& job) { return IsOver(job.state); }));
  for (auto job = jobs_.begin(); over > kKeptOver && job != jobs_.end();) {
    if (!IsOver(job->state) || job->busy || !job->saved) {
      ++job;
      continue;
    }
    for (const JobMember& member : job->members) to_forget_.push_back(member.run);
    for (const JobMember& member : job->before) to_forget_.push_back(member.run);
    unwritten_ += LineOfForgotten(job->id);
    by_id_.erase(job->id);
    job = jobs_.erase(job);
    --over;
  }
}

}  // namespace gateway::control
