#include "plugins/launchers/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <set>
#include <utility>

#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/transport.h"
#include "plugins/launchers/run_log.h"
#include "plugins/launchers/run_start.h"

namespace plugins::launchers {
namespace {

using gateway::net::OffLoop;
using gateway::net::ProcessHandle;
using gateway::net::ProcessWatch;
using gateway::net::Task;

// How often it is looked whether those that a first process left behind have ended.
constexpr conf::Duration kFirstLook = std::chrono::milliseconds(10);
constexpr conf::Duration kLongestLook = std::chrono::milliseconds(500);

std::string SignalWord(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace

struct ProcessLauncher::Run {
  Run(std::string id, RunFolder where, gateway::net::Watchdog& watchdog)
      : folder(std::move(where)), pause(watchdog) {
    record.id = std::move(id);
  }

  const RunFolder folder;
  RunRecord record;
  RunState state = RunState::kStarting;
  conf::TimePoint since{};
  std::string unreadable{};  // why its record cannot be relied on; it is left alone then
  ProcessHandle leader{};
  std::unique_ptr<ProcessWatch> watch{};
  bool leader_ended = false;
  bool killed = false;  // for it did not end in time
  bool ending = false;  // a task sees to it
  std::vector<std::string> secrets{};
  bool secrets_known = true;
  gateway::net::Sleep pause;
};

ProcessLauncher::ProcessLauncher(gateway::net::Loop& loop, Options options, RunStore store)
    : loop_(loop), options_(std::move(options)), store_(std::move(store)), next_port_(options_.first_port) {}

ProcessLauncher::~ProcessLauncher() = default;

absl::StatusOr<std::unique_ptr<ProcessLauncher>> ProcessLauncher::Open(gateway::net::Loop& loop,
                                                                       Options options) {
  absl::StatusOr<RunStore> store = RunStore::Open(options.state_dir);
  if (!store.ok()) return store.status();
  std::unique_ptr<ProcessLauncher> launcher(new ProcessLauncher(loop, std::move(options), std::move(*store)));
  if (absl::Status adopted = launcher->Adopt(); !adopted.ok()) return adopted;
  launcher->Spawn(launcher->LookAtLogs());
  if (launcher->options_.find_faults) launcher->Spawn(launcher->LookAtDevices());
  return launcher;
}

// ---- What an earlier gateway left.

absl::Status ProcessLauncher::Adopt() {
  const absl::StatusOr<std::vector<std::string>> ids = store_.Ids();
  if (!ids.ok()) return ids.status();
  conf::TimePoint newest{};
  for (const std::string& id : *ids) {
    AdoptOne(id);
    const Run* const run = Find(id);
    if (run == nullptr || run->record.port < options_.first_port || run->record.since < newest) continue;
    newest = run->record.since;
    next_port_ = static_cast<uint16_t>(run->record.port + 1);
  }
  return absl::OkStatus();
}

void ProcessLauncher::AdoptOne(const std::string& id) {
  const RunFolder folder = store_.Folder(id);
  absl::StatusOr<RunRecord> record = folder.Load();
  if (absl::IsNotFound(record.status())) {
    // It was killed while it was started, and had not begun.
    folder.Remove().IgnoreError();
    return;
  }
  Run& run = Insert(id);
  if (!record.ok()) {
    run.unreadable = std::string(record.status().message());
    run.record.why =
        fmt::format("{}. Repair it, or remove it when nothing of the run is left", run.unreadable);
    run.leader_ended = true;
    run.state = FindMembers(MarkOf(run)).empty() ? RunState::kEnded : RunState::kRunning;
    run.since = gateway::net::Now();
    return;
  }
  run.record = std::move(*record);
  run.state = run.record.state;
  run.since = run.record.since;
  if (run.state == RunState::kEnded) return;
  const bool same_boot = run.record.boot == gateway::net::BootId();
  std::optional<ProcessHandle> leader;
  if (same_boot) leader = ProcessHandle::Open(run.record.pid, run.record.start_ticks);
  if (leader) {
    run.leader = std::move(*leader);
    for (const auto& [name, value] : EnvironmentOf(run.record.pid)) {
      if (value.size() >= kShortestSecret && std::ranges::count(run.record.env_names, name) > 0)
        run.secrets.push_back(value);
    }
    run.secrets_known = run.record.env_names.empty() || !run.secrets.empty();
    Watch(run);
    if (run.state == RunState::kStopping) {
      run.ending = true;
      Spawn(End(run));
    }
    return;
  }
  run.leader_ended = true;
  run.secrets_known = run.record.env_names.empty();
  if (!run.record.asked) {
    run.record.why = same_boot ? "it ended while no gateway watched it"
                               : "it ended with the machine, which was started anew since";
  }
  if (same_boot && !FindMembers(MarkOf(run)).empty()) {
    BeginEnding(run, options_.leftover_grace);
    return;
  }
  run.state = run.record.state = RunState::kEnded;
  run.since = run.record.since = gateway::net::Now();
  // Best effort: read again, it would end again.
  folder.Save(run.record).IgnoreError();
}

ProcessLauncher::Run& ProcessLauncher::Insert(const std::string& id) {
  auto& run = runs_[id];
  run = std::make_unique<Run>(id, store_.Folder(id), loop_.watchdog);
  return *run;
}

ProcessLauncher::Run* ProcessLauncher::Find(const std::string& id) {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second.get();
}

RunMark ProcessLauncher::MarkOf(const Run& run) const {
  return {.id = run.record.id,
          .token = store_.token(),
          .log = run.folder.log(),
          .leader = run.record.pid,
          .start_ticks = run.record.start_ticks,
          .session_is_ours = static_cast<bool>(run.leader)};
}

// ---- What is asked.

Task<absl::Status> ProcessLauncher::Start(RunSpec spec) {
  if (closing_) co_return absl::UnavailableError("the gateway stops");
  if (const Run* const known = Find(spec.id)) {
    if (known->unreadable.empty()) co_return absl::OkStatus();
    co_return absl::FailedPreconditionError(known->record.why);
  }
  const std::string id = spec.id;
  const uint16_t port = spec.serves ? TakePort() : 0;
  if (spec.serves && port == 0) {
    co_return absl::UnavailableError(
        fmt::format("no port from {} to {} is free", options_.first_port, options_.last_port));
  }
  absl::StatusOr<RunPlan> plan = PlanRun(std::move(spec), options_.nodes, port, store_.token());
  if (!plan.ok()) co_return plan.status();

  Run& run = Insert(id);
  run.record = plan->record;
  run.since = gateway::net::Now();
  run.secrets = plan->secrets;
  ++background_;
  absl::StatusOr<StartedRun> started = co_await OffLoop(
      loop_, [&, now = run.since] { return StartRun(std::move(*plan), run.folder, store_.lock(), now); });
  absl::Status status = started.status();
  if (status.ok()) {
    run.record = std::move(started->record);
    run.leader = std::move(started->process);
    run.state = RunState::kRunning;
    run.since = run.record.since = gateway::net::Now();
    if (!closing_) Watch(run);
  } else {
    runs_.erase(id);
  }
  if (--background_ == 0) idle_.Set();
  co_return status;
}

Task<absl::Status> ProcessLauncher::Stop(std::string id, conf::Duration grace) {
  Run* const run = Find(id);
  if (run == nullptr || run->state == RunState::kEnded) co_return absl::OkStatus();
  if (run->state == RunState::kStarting)
    co_return absl::UnavailableError(fmt::format("{} is being started; ask again", id));
  run->record.asked = true;
  if (run->ending) {
    // It may be shortened, never lengthened.
    run->record.kill_at = std::min(run->record.kill_at, gateway::net::Now() + grace);
    run->pause.Cancel();
  } else {
    BeginEnding(*run, grace);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> ProcessLauncher::Signal(std::string id, int signal) {
  const Run* const run = Find(id);
  if (run == nullptr || !run->leader || run->leader_ended || !run->leader.Signal(signal))
    co_return absl::NotFoundError(fmt::format("{} does not run", id));
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::vector<RunStatus>>> ProcessLauncher::List() {
  std::vector<RunStatus> all;
  all.reserve(runs_.size());
  for (const auto& [id, run] : runs_) all.push_back(StatusOf(*run));
  co_return all;
}

Task<absl::Status> ProcessLauncher::Forget(std::string id) {
  Run* const run = Find(id);
  if (run == nullptr) co_return absl::OkStatus();
  if (run->state != RunState::kEnded)
    co_return absl::FailedPreconditionError(fmt::format("{} has not ended", id));
  // One that is not ours to judge stays, until its owner has taken it away.
  const RunFolder folder = run->folder;
  const bool unreadable = !run->unreadable.empty();
  ++background_;
  absl::Status removed = co_await OffLoop(loop_, [&] {
    if (unreadable) {
      if (const absl::Status still = folder.Load().status(); !absl::IsNotFound(still))
        return absl::FailedPreconditionError(
            fmt::format("{} is left alone: remove it by hand", folder.record()));
    }
    return folder.Remove();
  });
  if (removed.ok()) runs_.erase(id);
  if (--background_ == 0) idle_.Set();
  co_return removed;
}

Task<void> ProcessLauncher::Close() {
  closing_ = true;
  look_.Cancel();
  device_look_.Cancel();
  for (const auto& [id, run] : runs_) {
    run->watch.reset();
    run->pause.Cancel();
  }
  while (background_ > 0) {
    idle_.Reset();
    co_await idle_.Wait();
  }
}

RunStatus ProcessLauncher::StatusOf(const Run& run) const {
  const RunRecord& record = run.record;
  return {.id = record.id,
          .owner = record.owner,
          .state = run.state,
          .host = record.serves ? options_.host : "",
          .port = record.port,
          .since = run.since,
          .exit_code = record.exit_code,
          .signal = record.signal,
          .why = record.why,
          .log = run.folder.log()};
}

uint16_t ProcessLauncher::TakePort() {
  std::set<uint16_t> used;
  for (const auto& [id, run] : runs_) {
    if (run->state != RunState::kEnded) used.insert(run->record.port);
  }
  const int count = options_.last_port - options_.first_port + 1;
  // From the last one on: one that was found taken after all is not tried again at once.
  for (int i = 0; i < count; ++i) {
    if (next_port_ < options_.first_port || next_port_ > options_.last_port) next_port_ = options_.first_port;
    const uint16_t port = next_port_++;
    if (!used.contains(port) && gateway::net::PortIsFree(port)) return port;
  }
  return 0;
}

// ---- How a run ends.

void ProcessLauncher::Watch(Run& run) {
  run.watch = std::make_unique<ProcessWatch>(loop_, run.leader, [this, &run] { LeaderEnded(run); });
}

void ProcessLauncher::LeaderEnded(Run& run) {
  run.leader_ended = true;
  if (run.ending) {
    run.pause.Cancel();
  } else {
    run.ending = true;
    Spawn(End(run));
  }
}

void ProcessLauncher::BeginEnding(Run& run, conf::Duration grace) {
  run.state = RunState::kStopping;
  run.since = gateway::net::Now();
  run.record.kill_at = run.since + grace;
  run.ending = true;
  Spawn(End(run));
}

void ProcessLauncher::Spawn(Task<void> task) {
  loop_.tasks.Spawn(Counted(std::move(task)));
}

Task<void> ProcessLauncher::Counted(Task<void> task) {
  ++background_;
  co_await task;
  if (--background_ == 0) idle_.Set();
}

Task<void> ProcessLauncher::End(Run& run) {
  const auto find = [mark = MarkOf(run)] { return FindMembers(mark); };
  std::vector<Member> members;
  if (run.leader_ended && run.state == RunState::kRunning) {
    // By itself. Most leave nobody behind.
    members = co_await OffLoop(loop_, find);
    if (closing_) co_return;
    if (members.empty()) {
      co_await Conclude(run);
      co_return;
    }
    run.state = RunState::kStopping;
    run.since = gateway::net::Now();
    run.record.kill_at = run.since + options_.leftover_grace;
  }
  // Written before anybody is told, so that a gateway that starts anew goes on with it.
  co_await Save(run, run.state, run.since);
  members = co_await OffLoop(loop_, find);
  for (const Member& member : members) member.process.Signal(SIGTERM);
  conf::Duration look = kFirstLook;
  while (!closing_) {
    const bool overdue = gateway::net::Now() >= run.record.kill_at;
    if (run.leader_ended || overdue) {
      members = co_await OffLoop(loop_, find);
      if (members.empty() && run.leader_ended) break;
      if (overdue && !members.empty()) {
        run.killed = true;
        for (const Member& member : members) member.process.Signal(SIGKILL);
      }
    }
    if (closing_) break;
    // The end of the first process wakes it; the others' does not.
    conf::Duration wait = overdue ? look : run.record.kill_at - gateway::net::Now();
    if (run.leader_ended) wait = std::min(wait, look);
    if (run.leader_ended || overdue) look = std::min(2 * look, kLongestLook);
    co_await run.pause.For(wait);
  }
  if (!closing_) co_await Conclude(run);
}

Task<void> ProcessLauncher::Conclude(Run& run) {
  RunRecord& record = run.record;
  if (run.leader) {
    std::optional<gateway::net::ProcessEnd> end = run.leader.Reap();
    if (!end) end = run.leader.HowItEnded(record.pid, record.start_ticks);
    if (end) {
      record.exit_code = end->exit_code;
      record.signal = end->signal;
    }
    std::string why;
    if (record.asked) {
      if (run.killed) why = "it did not end in the time that it was given, and was killed";
    } else if (end && end->signal) {
      why = fmt::format("it was ended by {}", SignalWord(*end->signal));
    } else if (end && *end->exit_code != 0) {
      why = fmt::format("it ended with exit code {}", *end->exit_code);
    } else if (!end) {
      why = "it ended; how is not known, for it was started by an earlier gateway";
    }
    if (!why.empty() && !record.asked && run.secrets_known) {
      const std::string tail = co_await OffLoop(
          loop_, [log = run.folder.log(), secrets = run.secrets] { return LogTail(log, secrets); });
      if (!tail.empty()) why += "; its last lines: " + tail;
    }
    record.why = std::move(why);
  }
  run.watch.reset();
  run.leader = {};
  const conf::TimePoint now = gateway::net::Now();
  co_await Save(run, RunState::kEnded, now);
  run.state = RunState::kEnded;
  run.since = now;
  run.ending = false;
  on_change(record.id);
}

// Failing costs what a later gateway would know of it, and nothing else.
Task<void> ProcessLauncher::Save(Run& run, RunState state, conf::TimePoint since) {
  if (!run.unreadable.empty()) co_return;
  run.record.state = state;
  run.record.since = since;
  co_await OffLoop(loop_, [record = run.record, folder = run.folder] { return folder.Save(record).ok(); });
}

Task<void> ProcessLauncher::LookAtLogs() {
  while (co_await look_.For(options_.log_look)) {
    for (auto run = runs_.begin(); run != runs_.end() && !closing_;) {
      const std::string id = run->first;
      const RunFolder folder = run->second->folder;
      if (!run->second->unreadable.empty())
        co_await LookAtUnreadable(*run->second);
      else
        LookAtUnwatched(*run->second);
      if (LogBytes(folder.log()) > options_.log_bytes) {
        co_await OffLoop(loop_, [&] { return RotateLog(folder.log(), options_.log_bytes).ok(); });
      }
      run = runs_.upper_bound(id);  // others may have come and gone
    }
    if (closing_) co_return;
  }
}

Task<void> ProcessLauncher::LookAtDevices() {
  while (!closing_) {
    const std::map<std::string, devices::Fault> found = co_await OffLoop(loop_, options_.find_faults);
    std::vector<DeviceFault> faults;
    for (const devices::LocalNode& node : options_.nodes) {
      for (size_t place = 0; place < node.devices.size(); ++place) {
        const auto fault = found.find(devices::KeyOf(node.devices[place]));
        if (fault == found.end()) continue;
        faults.push_back({node.name, static_cast<uint8_t>(place), fault->second.why, fault->second.lost});
      }
    }
    if (faults != faults_.faults) {
      faults_.faults = std::move(faults);
      ++faults_.version;
    }
    if (closing_ || !co_await device_look_.For(options_.fault_look)) co_return;
  }
}

// Where there was no descriptor left to wait with.
void ProcessLauncher::LookAtUnwatched(Run& run) {
  if (run.watch && !run.watch->works() && !run.leader_ended && run.leader.ended()) LeaderEnded(run);
}

// Nobody waits for its processes, for it is not known which is the first.
Task<void> ProcessLauncher::LookAtUnreadable(Run& run) {
  if (run.state != RunState::kRunning || run.ending) co_return;
  const std::string id = run.record.id;
  const bool gone = co_await OffLoop(loop_, [mark = MarkOf(run)] { return FindMembers(mark).empty(); });
  if (!gone || run.ending) co_return;
  run.state = RunState::kEnded;
  run.since = gateway::net::Now();
  on_change(id);
}

}  // namespace plugins::launchers
