#include "plugins/launchers/slurm/runs.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace plugins::launchers::slurm {
namespace {

RunState StateOf(const Job& job, bool told_to_stop) {
  switch (job.state) {
    case JobState::kPending:
      return told_to_stop ? RunState::kStopping : RunState::kStarting;
    case JobState::kRunning:
    case JobState::kSuspended:
    case JobState::kOther:
      return told_to_stop ? RunState::kStopping : RunState::kRunning;
    case JobState::kCompleting:
      return RunState::kStopping;
    default:
      return RunState::kEnded;
  }
}

// Whether the run's first process ended; other failures are Slurm's.
bool EndedByItself(const Job& job) {
  return job.state == JobState::kCompleted ||
         (job.state == JobState::kFailed && (job.reason == "NonZeroExitCode" || job.reason == "None"));
}

bool Precedes(const Job& a, const Job& b) {
  if (IsOver(a.state) != IsOver(b.state)) return !IsOver(a.state);
  return IsOver(a.state) ? a.id > b.id : a.id < b.id;
}

bool SameStatus(const RunStatus& a, const RunStatus& b) {
  return a.state == b.state && a.host == b.host && a.port == b.port && a.since == b.since &&
         a.exit_code == b.exit_code && a.signal == b.signal && a.why == b.why && a.started == b.started &&
         a.ended == b.ended && a.witness == b.witness;
}

// The devices of the job on its first node, by Slurm's report.
DeviceGrant GrantOf(const Job& job, const std::string& node) {
  DeviceGrant grant;
  grant.node = node;
  if (job.gres.empty()) return grant;
  for (const Gres& gres : job.gres.front()) {
    grant.kind = gres.type.empty() ? gres.name : gres.type;
    grant.devices.insert(grant.devices.end(), gres.places.begin(), gres.places.end());
  }
  return grant;
}

std::string WhyEnded(const RunResult::End& end) {
  if (end.signal) return fmt::format("it was ended by signal {}", *end.signal);
  return end.exit_code == 0 ? std::string() : fmt::format("it exited with {}", *end.exit_code);
}

// Its own word goes before slurmctld's, but where Slurm ended it for a reason that the run cannot know.
void Apply(const RunResult& result, bool by_itself, bool told_to_stop, RunStatus& status) {
  status.started = result.beginning ? result.beginning->started : status.started;
  status.ended = status.since = result.end->ended;
  status.witness = Witness::kWrapper;
  if (!by_itself) return;
  status.exit_code = result.end->exit_code;
  status.signal = result.end->signal;
  if (status.why.empty() && !told_to_stop) status.why = WhyEnded(*result.end);
}

}  // namespace

std::string WhyWaiting(const Job& job) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kWords = {{
      {"Resources", "its node has not enough free"},
      {"Priority", "other jobs go first"},
      {"Dependency", "another job of its name has not ended"},
      {"ReqNodeNotAvail", "its node is down, drained or reserved"},
      {"BeginTime", "Slurm starts it later"},
      {"PartitionDown", "its partition is down"},
      {"JobHeldAdmin", "an administrator holds it"},
      {"JobHeldUser", "its user holds it"},
  }};
  if (job.state == JobState::kSuspended) return fmt::format("job {} is suspended through Slurm", job.id);
  if (job.state == JobState::kOther) return fmt::format("job {} is {} in Slurm", job.id, job.state_word);
  if (job.state != JobState::kPending || job.reason.empty() || job.reason == "None") return {};
  // A reason may carry a list behind it: "ReqNodeNotAvail, UnavailableNodes:node4".
  const auto* known = std::find_if(kWords.begin(), kWords.end(), [&job](const auto& word) {
    return job.reason == word.first || job.reason.starts_with(std::string(word.first) + ",");
  });
  return fmt::format("job {} waits in Slurm: {}", job.id,
                     known == kWords.end() ? job.reason : fmt::format("{} ({})", known->second, job.reason));
}

std::string WhyEnded(const Job& job, bool told_to_stop) {
  const std::string node = job.nodes.empty() ? "its node" : job.nodes.front();
  switch (job.state) {
    case JobState::kCompleted:
      return {};
    case JobState::kCancelled:
      return told_to_stop ? std::string() : fmt::format("job {} was cancelled through Slurm", job.id);
    case JobState::kTimeout:
      return fmt::format("job {} ran into its time limit", job.id);
    case JobState::kOutOfMemory:
      return fmt::format("job {} ran out of memory: it had {} MiB", job.id, job.memory_mib);
    case JobState::kNodeFail:
      return fmt::format("{} failed under job {}", node, job.id);
    case JobState::kPreempted:
      return fmt::format("job {} was preempted by Slurm", job.id);
    case JobState::kBootFail:
      return fmt::format("{} did not boot for job {}", node, job.id);
    case JobState::kDeadline:
      return fmt::format("job {} had not started at its deadline", job.id);
    default:
      break;
  }
  if (told_to_stop) return {};
  if (!EndedByItself(job)) return fmt::format("Slurm could not start job {}: {}", job.id, job.reason);
  const int status = job.wait_status;
  return WIFSIGNALED(status) ? fmt::format("job {} was ended by signal {}", job.id, WTERMSIG(status))
                             : fmt::format("job {} exited with {}", job.id, WEXITSTATUS(status));
}

bool Runs::IsOurs(const Job& job) const {
  if (job.user != identity_.user) return false;
  const std::optional<Mark> mark = ReadMark(job.comment);
  return mark && mark->state == identity_.state;
}

Runs::Outcome Runs::Apply(const std::vector<Job>& jobs, const std::map<std::string, std::string>& addresses,
                          uint64_t stamp, conf::TimePoint now) {
  struct Found {
    const Job* job;
    Mark mark;
  };
  std::map<std::string, std::vector<Found>> found;
  for (const Job& job : jobs) {
    if (job.user != identity_.user) continue;
    std::optional<Mark> mark = ReadMark(job.comment);
    if (mark && mark->state == identity_.state) found[job.name].push_back({&job, *std::move(mark)});
  }
  Outcome outcome;
  std::erase_if(forgotten_, [&found, stamp](const auto& forgotten) {
    return !found.contains(forgotten.first) && forgotten.second < stamp;
  });
  for (auto& [id, same] : found) {
    std::sort(same.begin(), same.end(),
              [](const Found& a, const Found& b) { return Precedes(*a.job, *b.job); });
    const auto& [job, mark] = same.front();
    if (forgotten_.contains(id) && IsOver(job->state)) continue;
    for (size_t i = 1; i < same.size() && !IsOver(same[i].job->state); ++i)
      outcome.kill.push_back(same[i].job->id);
    const bool is_new = !runs_.contains(id);
    Run& run = runs_[id];
    if (Update(run, *job, mark, addresses) || is_new) outcome.changed.push_back(id);
    if (run.told_to_stop && !run.kill_at && !IsOver(job->state)) outcome.kill.push_back(job->id);
  }
  for (auto& [id, run] : runs_) {
    if (found.contains(id) || run.status.state == RunState::kEnded || run.stamp > stamp) continue;
    if (run.lost) continue;  // it may come yet
    run.status.state = RunState::kEnded;
    run.status.since = now;
    run.status.ended = now;
    run.status.witness = Witness::kLauncher;
    if (!run.told_to_stop) run.status.why = fmt::format("Slurm no longer knows job {}", run.job);
    outcome.changed.push_back(id);
  }
  return outcome;
}

bool Runs::Update(Run& run, const Job& job, const Mark& mark,
                  const std::map<std::string, std::string>& addresses) {
  RunStatus status;
  status.id = job.name;
  status.owner = mark.owner;
  status.state = StateOf(job, run.told_to_stop);
  status.port = mark.port;
  if (!job.nodes.empty()) run.node = job.nodes.front();
  status.grant = run.status.grant.devices.empty() ? GrantOf(job, run.node) : run.status.grant;
  if (HoldsDevices(job.state) || IsOver(job.state)) {
    if (job.started > conf::TimePoint()) status.started = job.started;
    status.witness = Witness::kManager;
  }
  const auto address = addresses.find(run.node);
  status.host = address == addresses.end() ? run.node : address->second;
  if (status.state == RunState::kEnded) {
    status.since = job.ended;
    status.ended = job.ended;
    status.why = WhyEnded(job, run.told_to_stop);
    if (!job.nodes.empty() && (EndedByItself(job) || run.told_to_stop)) {
      if (WIFEXITED(job.wait_status)) status.exit_code = WEXITSTATUS(job.wait_status);
      if (WIFSIGNALED(job.wait_status)) status.signal = WTERMSIG(job.wait_status);
    }
    if (run.result)
      slurm::Apply(*run.result, EndedByItself(job) || run.told_to_stop, run.told_to_stop, status);
  } else {
    status.why = WhyWaiting(job);
    if (status.state == RunState::kStopping) {
      status.since = run.status.state == RunState::kStopping ? run.status.since : job.started;
    } else {
      status.since = job.state == JobState::kPending ? job.submitted : job.started;
    }
  }
  run.job = job.id;
  const bool changed = std::exchange(run.lost, false) || !SameStatus(run.status, status);
  run.status = std::move(status);
  return changed;
}

bool Runs::AddResult(const std::string& id, const Mark& mark, const RunResult& result) {
  if (!result.end || forgotten_.contains(id)) return false;
  const bool is_new = !runs_.contains(id);
  Run& run = runs_[id];
  if (is_new) {
    run.status.id = id;
    run.status.owner = mark.owner;
    run.status.port = mark.port;
    run.status.state = RunState::kEnded;
    run.status.witness = Witness::kLauncher;
  }
  if (run.status.state != RunState::kEnded || run.result) return false;
  run.result = result;
  // Where slurmctld has no word on it, the run's own is all there is.
  const bool forgotten = run.status.witness == Witness::kLauncher;
  if (forgotten) run.status.why.clear();
  slurm::Apply(result, forgotten || run.status.exit_code || run.status.signal, run.told_to_stop, run.status);
  return true;
}

std::vector<std::string> Runs::WithoutResult() const {
  std::vector<std::string> ids;
  for (const auto& [id, run] : runs_) {
    if (run.status.state == RunState::kEnded && !run.result) ids.push_back(id);
  }
  return ids;
}

const Runs::Run* Runs::Find(const std::string& id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

std::vector<RunStatus> Runs::List() const {
  std::vector<RunStatus> all;
  all.reserve(runs_.size());
  for (const auto& [id, run] : runs_) {
    if (!run.lost) all.push_back(run.status);
  }
  return all;
}

bool Runs::Moving() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) {
    const Run& run = entry.second;
    return !run.lost && (run.status.state == RunState::kStarting || run.status.state == RunState::kStopping);
  });
}

uint16_t Runs::PickPort(const std::string& id, const std::string& address) const {
  std::set<uint16_t> taken;
  for (const auto& [other, run] : runs_) {
    if (other != id && run.status.state != RunState::kEnded && run.status.host == address)
      taken.insert(run.status.port);
  }
  return ports_.Pick(id, taken);
}

void Runs::Ask(const RunSpec& spec, const std::string& address, uint16_t port, conf::TimePoint now) {
  Run& run = runs_[spec.id];
  run = {};
  run.status.id = spec.id;
  run.status.owner = spec.owner;
  run.status.host = address;
  run.status.port = port;
  run.status.since = now;
  run.status.grant = spec.grant;
  run.node = spec.grant.node;
  run.stamp = UINT64_MAX;  // no list asked for before the answer says anything of it
  forgotten_.erase(spec.id);
}

void Runs::Submitted(const std::string& id, uint32_t job) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  found->second.job = job;
  found->second.stamp = ++stamp_;
}

void Runs::Refused(const std::string& id) {
  runs_.erase(id);
  forgotten_[id] = ++stamp_;  // Slurm shows some that it refused as failed
}

void Runs::Lost(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || found->second.job != 0) return;
  found->second.lost = true;
  found->second.stamp = ++stamp_;
}

void Runs::ToldToStop(const std::string& id, std::optional<conf::TimePoint> kill_at, conf::TimePoint now) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || found->second.status.state == RunState::kEnded) return;
  Run& run = found->second;
  run.told_to_stop = true;
  if (kill_at) run.kill_at = run.kill_at ? std::min(*run.kill_at, *kill_at) : *kill_at;
  if (run.status.state != RunState::kStopping) run.status.since = now;
  run.status.state = RunState::kStopping;
}

std::vector<uint32_t> Runs::Due(conf::TimePoint now) const {
  std::vector<uint32_t> due;
  for (const auto& [id, run] : runs_) {
    if (run.kill_at && *run.kill_at <= now && run.status.state != RunState::kEnded) due.push_back(run.job);
  }
  return due;
}

void Runs::Forget(const std::string& id) {
  runs_.erase(id);
  forgotten_[id] = ++stamp_;
}

}  // namespace plugins::launchers::slurm
