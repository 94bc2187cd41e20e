#include "plugins/launchers/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/transport.h"
#include "plugins/launchers/local_run_host.h"
#include "plugins/launchers/mps.h"
#include "plugins/launchers/run_log.h"
#include "plugins/launchers/run_logs.h"
#include "plugins/launchers/run_result.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers {
namespace {

using gateway::net::OffLoop;
using gateway::net::ProcessHandle;
using gateway::net::ProcessWatch;
using gateway::net::Task;

// How often members are looked for that no wrapper waits for.
constexpr conf::Duration kFirstLook = std::chrono::milliseconds(10);
constexpr conf::Duration kLongestLook = std::chrono::milliseconds(500);

std::string SignalWord(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// The last word on a run's end, in the record; `seen` is when this launcher knew that nothing of it was left.
void SetEnd(RunRecord& record, const RunResult& result, conf::TimePoint seen, bool killed) {
  if (result.beginning) record.started = result.beginning->started;
  if (!record.started) record.started = record.since;
  if (result.end) {
    record.exit_code = result.end->exit_code;
    record.signal = result.end->signal;
    record.ended = result.end->ended;
    record.witness = Witness::kWrapper;
    killed = result.end->killed;
  } else {
    record.ended = std::max(seen, *record.started);
    record.witness = Witness::kLauncher;
  }
  record.why.clear();
  if (record.asked) {
    if (killed) record.why = "it did not end within its grace, and was killed";
  } else if (!result.end) {
    record.why =
        !record.wrapped ? "it ended; its exit status is unknown, because an earlier version started it"
        : record.boot == gateway::net::BootId() ? "its wrapper (tidegate-run) was killed, and the run with it"
                                                : "it ended when the machine was restarted";
  } else if (record.signal) {
    record.why = fmt::format("it was ended by {}", SignalWord(*record.signal));
  } else if (record.exit_code != 0) {
    record.why = fmt::format("it ended with exit code {}", *record.exit_code);
  }
}

// The wrapper is installed in the folder of the program that runs now.
std::string WrapperBesideUs() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : (self.parent_path() / wrapper::kName).string();
}

}  // namespace

struct ProcessLauncher::Run {
  Run(std::string id, RunFolder where, gateway::net::Watchdog& watchdog)
      : folder(std::move(where)), pause(watchdog) {
    record.id = std::move(id);
  }

  bool wrapper_lives() const { return record.wrapped && leader && !leader_ended; }

  const RunFolder folder;
  RunRecord record;
  RunState state = RunState::kStarting;
  conf::TimePoint since{};
  conf::TimePoint alive{};   // last seen
  std::string unreadable{};  // why its record cannot be relied on: the launcher does not overwrite it
  bool orphan = false;
  ProcessHandle leader{};  // the wrapper; of a run without one, its first process
  ProcessHandle first{};   // process, below the wrapper
  pid_t first_pid = 0;
  std::unique_ptr<ProcessWatch> watch{};
  std::unique_ptr<ProcessWatch> watch_first{};
  bool leader_ended = false;
  bool killed = false;  // for it did not end in time, and not by its wrapper
  bool ending = false;  // a task ends it
  std::vector<std::string> secrets{};
  bool secrets_known = true;
  gateway::net::Sleep pause;
};

// A process of another user is not ours to signal; its wrapper passes on what it can catch.
bool ProcessLauncher::SendSignal(const Run& run, int signal) {
  if (!run.record.wrapped) return run.leader.Signal(signal);
  return run.first.Signal(signal) || (signal != SIGKILL && signal != SIGSTOP && run.leader.Signal(signal));
}

ProcessLauncher::ProcessLauncher(gateway::net::Loop& loop, Options options, RunStore store,
                                 std::unique_ptr<RunHost> host)
    : loop_(loop),
      options_(std::move(options)),
      store_(std::move(store)),
      host_(std::move(host)),
      next_port_(options_.first_port) {}

ProcessLauncher::~ProcessLauncher() = default;

absl::StatusOr<std::unique_ptr<ProcessLauncher>> ProcessLauncher::Open(gateway::net::Loop& loop,
                                                                       Options options) {
  if (options.wrapper.empty()) options.wrapper = WrapperBesideUs();
  if (access(options.wrapper.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{} cannot be run: {}. It belongs beside the program tidegate, which starts runs with it",
                    options.wrapper, strerror(errno)));
  }
  absl::StatusOr<RunStore> store = RunStore::Open(options.state_dir, options.logs_dir);
  if (!store.ok()) return store.status();
  absl::StatusOr<std::unique_ptr<RunHost>> host;
  if (options.make_host) {
    host = options.make_host(store->token(), options.wrapper);
  } else {
    host = std::make_unique<LocalRunHost>(LocalRunHost::Options{
        .token = store->token(), .wrapper = options.wrapper, .cgroups = options.cgroups});
  }
  if (!host.ok()) return host.status();
  std::unique_ptr<ProcessLauncher> launcher(
      new ProcessLauncher(loop, std::move(options), *std::move(store), *std::move(host)));
  if (absl::Status adopted = launcher->Adopt(); !adopted.ok()) return adopted;
  launcher->Spawn(launcher->CheckRuns());
  if (launcher->options_.find_faults) launcher->Spawn(launcher->CheckDevices());
  return launcher;
}

// ---- Runs of an earlier gateway.

absl::Status ProcessLauncher::Adopt() {
  const absl::StatusOr<std::vector<std::string>> ids = store_.Ids();
  if (!ids.ok()) return ids.status();
  Found found = host_->FindRuns();
  for (const std::string& id : *ids) {
    auto processes = found.extract(id);
    AdoptOne(id, processes ? std::move(processes.mapped()) : std::nullopt, !processes.empty());
  }
  for (auto& [id, wrapper] : found) {
    if (IsRunId(id)) AdoptOrphan(id, std::move(wrapper));
  }
  conf::TimePoint newest{};
  for (const auto& [id, run] : runs_) {
    if (run->record.port < options_.first_port || run->record.since < newest) continue;
    newest = run->record.since;
    next_port_ = static_cast<uint16_t>(run->record.port + 1);
  }
  return absl::OkStatus();
}

void ProcessLauncher::AdoptOne(const std::string& id, std::optional<FoundWrapper> wrapper,
                               bool has_processes) {
  const RunFolder folder = store_.Folder(id);
  absl::StatusOr<RunRecord> record = folder.Load();
  if (absl::IsNotFound(record.status())) {
    const RunResult result = ReadResultFile(folder.result()).value_or(RunResult());
    if (has_processes) {
      AdoptOrphan(id, std::move(wrapper));
    } else if (result.beginning || result.end) {
      AdoptEndedOrphan(id, result);
    } else {
      // Its gateway was killed while it started the run, which had not begun.
      folder.Remove().IgnoreError();
    }
    return;
  }
  Run& run = Insert(id);
  if (!record.ok()) {
    run.unreadable = std::string(record.status().message());
    run.record.why =
        fmt::format("{}. Repair it, or remove it when nothing of the run is left", run.unreadable);
    run.since = gateway::net::Now();
    run.state = has_processes ? RunState::kRunning : RunState::kEnded;
    run.leader_ended = !wrapper;
    if (wrapper) {
      run.record.pid = wrapper->pid;
      run.record.start_ticks = wrapper->start_ticks;
      TakeLeader(run, std::move(wrapper->process));
    }
    return;
  }
  run.record = std::move(*record);
  run.state = run.record.state;
  run.since = run.record.since;
  if (run.state == RunState::kEnded) return;
  std::optional<ProcessHandle> leader;
  if (run.record.boot == gateway::net::BootId())
    leader = ProcessHandle::Open(run.record.pid, run.record.start_ticks);
  if (!leader && wrapper) {
    // The record is an older one that was restored.
    run.record.boot = gateway::net::BootId();
    run.record.pid = wrapper->pid;
    run.record.start_ticks = wrapper->start_ticks;
    leader = std::move(wrapper->process);
  }
  // An ended process that was not waited for is gone.
  if (!leader || leader->ended()) return AdoptEnded(run);
  TakeLeader(run, std::move(*leader));
  if (run.state == RunState::kStopping) {
    run.ending = true;
    Spawn(End(run));
  }
}

// Its record is gone, but it runs. The wrapper carries a copy, from which the record is written again.
void ProcessLauncher::AdoptOrphan(const std::string& id, std::optional<FoundWrapper> wrapper) {
  Run& run = Insert(id);
  run.orphan = true;
  run.state = RunState::kRunning;
  run.since = gateway::net::Now();
  absl::StatusOr<RunRecord> record = absl::NotFoundError("no wrapper");
  if (wrapper) record = ReadRecord(wrapper->record);
  if (record.ok() && record->id == id) run.record = *std::move(record);
  run.record.boot = gateway::net::BootId();
  run.record.state = RunState::kRunning;
  if (!wrapper) {
    run.leader_ended = true;
    run.record.cgroup = host_->MakeCgroup(id, {});
    run.record.why = "its record and its wrapper are gone; its workload is unknown";
    return;
  }
  run.record.command = CommandOf(wrapper->pid);
  const size_t own_words = std::min<size_t>(run.record.command.size(), wrapper::kFirstWord);
  run.record.command.erase(run.record.command.begin(),
                           run.record.command.begin() + static_cast<ptrdiff_t>(own_words));
  run.record.pid = wrapper->pid;
  run.record.start_ticks = wrapper->start_ticks;
  TakeLeader(run, std::move(wrapper->process));
  run.since = run.record.since = run.record.started.value_or(run.since);
  run.folder.Make().IgnoreError();  // this and the next: tried again by CheckRuns()
  run.folder.Save(run.record).IgnoreError();
}

// Its record is gone, and it ended while no gateway ran; the wrapper's result is left.
void ProcessLauncher::AdoptEndedOrphan(const std::string& id, const RunResult& result) {
  Run& run = Insert(id);
  run.orphan = true;
  run.leader_ended = true;
  run.record.boot = gateway::net::BootId();
  SetEnd(run.record, result, std::min(result.last_alive, gateway::net::Now()), false);
  run.state = run.record.state = RunState::kEnded;
  run.since = run.record.since = *run.record.ended;
  run.folder.Save(run.record).IgnoreError();  // read again, it would end again
}

// Its leader ended while no gateway ran.
void ProcessLauncher::AdoptEnded(Run& run) {
  run.leader_ended = true;
  run.secrets_known = run.record.env_names.empty();
  const RunResult result = ReadResultFile(run.folder.result()).value_or(RunResult());
  if (result.beginning) run.first_pid = result.beginning->child;
  const bool same_boot = run.record.boot == gateway::net::BootId();
  if (!result.end && same_boot && host_->Signal(MarkOf(run), 0) > 0) {
    if (run.state == RunState::kStopping) {
      run.ending = true;
      Spawn(End(run));
    } else {
      BeginEnding(run, options_.leftover_grace);
    }
    return;
  }
  const conf::TimePoint now = gateway::net::Now();
  const bool has_trace = result.last_alive > conf::TimePoint();
  SetEnd(run.record, result, has_trace ? std::min(result.last_alive, now) : now, false);
  if (run.secrets_known && !run.record.why.empty() && !run.record.asked) {
    if (const std::string tail = LogTail(run.folder.log(), {}); !tail.empty())
      run.record.why.append(kLastLines).append(tail);
  }
  run.state = run.record.state = RunState::kEnded;
  run.since = run.record.since = *run.record.ended;
  host_->RemoveCgroup(run.record.cgroup);
  // Best effort: read again, it would end again.
  run.folder.Save(run.record).IgnoreError();
}

// A leader that lives; the rest is learnt from it.
void ProcessLauncher::TakeLeader(Run& run, ProcessHandle leader) {
  run.leader = std::move(leader);
  const absl::StatusOr<RunResult> result = ReadResultFile(run.folder.result());
  if (result.ok() && result->beginning) {
    run.record.started = result->beginning->started;
    run.first_pid = result->beginning->child;
    if (auto first = ProcessHandle::Open(run.first_pid, result->beginning->child_ticks))
      run.first = std::move(*first);
  }
  for (const auto& [name, value] : host_->EnvironmentOf(run.first ? run.first_pid : run.record.pid)) {
    if (value.size() >= kShortestSecret && std::ranges::count(run.record.env_names, name) > 0)
      run.secrets.push_back(value);
  }
  run.secrets_known = run.record.env_names.empty() || !run.secrets.empty();
  Watch(run);
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
  std::optional<uid_t> uid;
  if (const auto user = host_->UserOf(run.record.user); user.ok()) uid = user->uid;
  return {.id = run.record.id,
          .log = run.folder.log(),
          .cgroup = run.record.cgroup,
          .wrapper = run.wrapper_lives() ? run.record.pid : 0,
          .leader = run.record.wrapped ? run.first_pid : run.record.pid,
          .start_ticks = run.record.start_ticks,
          .session_is_ours = static_cast<bool>(run.record.wrapped ? run.first : run.leader),
          .user = uid};
}

// ---- Requests.

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
  std::optional<RunUser> user;
  if (!spec.user.empty()) {
    absl::StatusOr<RunUser> known = host_->UserOf(spec.user);
    if (!known.ok()) co_return known.status();
    user = *std::move(known);
  }
  absl::StatusOr<RunPlan> plan =
      PlanRun(std::move(spec), options_.nodes, {.host = options_.host, .port = port}, store_.token(),
              user ? &*user : nullptr);
  if (!plan.ok()) co_return plan.status();
  if (options_.mps) {
    const auto limits = MpsLimits(plan->record.grant);
    if (!limits.ok()) co_return limits.status();
    for (const auto& [name, value] : *limits) plan->env.push_back(fmt::format("{}={}", name, value));
  }

  Run& run = Insert(id);
  run.record = plan->record;
  run.since = gateway::net::Now();
  run.secrets = plan->secrets;
  ++background_;
  const StartOptions options{.grace = options_.leftover_grace,
                             .log_bytes = options_.log_bytes,
                             .log_floor = options_.log_floor,
                             .limits = options_.limits,
                             .lock = store_.lock()};
  absl::StatusOr<StartedRun> started = co_await OffLoop(
      loop_, [&, now = run.since] { return StartRun(std::move(*plan), run.folder, *host_, options, now); });
  absl::Status status = started.status();
  if (status.ok()) {
    run.record = std::move(started->record);
    run.leader = std::move(started->wrapper);
    run.first = std::move(started->first);
    run.first_pid = started->first_pid;
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
    // The grace may be shortened, never lengthened.
    run->record.kill_at = std::min(run->record.kill_at, gateway::net::Now() + grace);
    run->pause.Cancel();
  } else {
    BeginEnding(*run, grace);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> ProcessLauncher::Signal(std::string id, int signal) {
  const Run* const run = Find(id);
  const bool runs = run != nullptr && run->leader && !run->leader_ended;
  if (!runs || !SendSignal(*run, signal)) co_return absl::NotFoundError(fmt::format("{} does not run", id));
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::vector<RunStatus>>> ProcessLauncher::List() {
  std::vector<RunStatus> all;
  all.reserve(runs_.size());
  const conf::TimePoint now = gateway::net::Now();
  for (const auto& [id, run] : runs_) {
    // The end of a leader may not have been heard of yet.
    if (!run->leader_ended && !(run->leader && run->leader.ended())) run->alive = now;
    all.push_back(StatusOf(*run));
  }
  co_return all;
}

Task<absl::Status> ProcessLauncher::Forget(std::string id) {
  Run* const run = Find(id);
  if (run == nullptr) co_return absl::OkStatus();
  if (run->state != RunState::kEnded)
    co_return absl::FailedPreconditionError(fmt::format("{} has not ended", id));
  // A record that cannot be read stays until an operator removes it.
  const RunFolder folder = run->folder;
  const bool unreadable = !run->unreadable.empty();
  ++background_;
  absl::Status removed = co_await OffLoop(loop_, [&, cgroup = run->record.cgroup] {
    host_->RemoveCgroup(cgroup);
    if (unreadable) {
      if (const absl::Status still = folder.Load().status(); !absl::IsNotFound(still))
        return absl::FailedPreconditionError(fmt::format("{} is kept: remove it by hand", folder.record()));
    }
    return folder.Remove();
  });
  if (removed.ok()) runs_.erase(id);
  if (--background_ == 0) idle_.Set();
  co_return removed;
}

Task<absl::Status> ProcessLauncher::CheckPort(std::string id) {
  const Run* const run = Find(id);
  if (run == nullptr || run->record.port == 0)
    co_return absl::NotFoundError(fmt::format("{} does not run", id));
  const uint16_t port = run->record.port;
  const gateway::net::PortUse use =
      co_await OffLoop(loop_, [host = host_.get(), mark = MarkOf(*run), address = options_.host, port] {
        return host->CheckPort(mark, address, port);
      });
  if (use.by_these) co_return absl::OkStatus();
  if (!use.taken) co_return absl::UnavailableError(fmt::format("no process listens on its port {}", port));
  const std::string owner = co_await OffLoop(loop_, [port] { return gateway::net::PortOwner(port); });
  co_return absl::FailedPreconditionError(
      fmt::format("its port {} is taken by {}, which is none of its processes", port, owner));
}

Task<void> ProcessLauncher::Close() {
  closing_ = true;
  check_.Cancel();
  device_check_.Cancel();
  for (const auto& [id, run] : runs_) {
    run->watch.reset();
    run->watch_first.reset();
    run->pause.Cancel();
  }
  while (background_ > 0) {
    idle_.Reset();
    co_await idle_.Wait();
  }
  host_->RemoveCgroup(host_->cgroups());  // unless runs are left in it
}

RunStatus ProcessLauncher::StatusOf(const Run& run) const {
  const RunRecord& record = run.record;
  return {.id = record.id,
          .owner = record.owner,
          .user = record.user,
          .state = run.state,
          .host = record.serves ? options_.host : "",
          .port = record.port,
          .since = run.since,
          .exit_code = record.exit_code,
          .signal = record.signal,
          .why = record.why,
          .log = run.folder.log(),
          .started = record.started,
          .ended = run.state == RunState::kEnded ? record.ended : std::nullopt,
          .alive =
              run.state == RunState::kEnded ? std::nullopt : std::optional(std::max(run.alive, record.since)),
          .witness = record.witness,
          .grant = record.grant,
          .orphan = run.orphan};
}

std::string ProcessLauncher::AddressOf(const std::string& /*id*/, const std::string& /*node*/) const {
  return options_.host;
}

uint16_t ProcessLauncher::TakePort() {
  std::set<uint16_t> used;
  for (const auto& [id, run] : runs_) {
    if (run->state != RunState::kEnded) used.insert(run->record.port);
  }
  const int count = options_.last_port - options_.first_port + 1;
  // From the last one on: a port that turned out to be taken is not tried again at once.
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
  if (run.first && run.record.serves)
    run.watch_first = std::make_unique<ProcessWatch>(loop_, run.first, [this, &run] { FirstEnded(run); });
}

// Its wrapper ends the rest now. Said before they are gone: the port is free for anybody.
void ProcessLauncher::FirstEnded(Run& run) {
  if (run.state != RunState::kRunning || run.ending) return;
  run.state = RunState::kStopping;
  run.since = gateway::net::Now();
  run.record.kill_at = run.since + options_.leftover_grace;
  on_change(run.record.id);
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
  // Written before anything is ended, so that a restarted gateway continues the stop.
  if (run.state == RunState::kStopping) co_await Save(run, run.state, run.since);
  if (run.wrapper_lives() && !closing_) co_await AskWrapper(run);
  if (closing_) co_return;
  RunResult result = co_await OffLoop(
      loop_, [file = run.folder.result()] { return ReadResultFile(file).value_or(RunResult()); });
  // A wrapper that wrote an end was the last process of its run.
  if (!result.end && !closing_) co_await EndMembers(run);
  if (!closing_) co_await Conclude(run, std::move(result));
}

// Has the wrapper end the run, and waits for it. A wrapper that does not act in time (it was stopped by a
// signal, say) is killed after its run.
Task<void> ProcessLauncher::AskWrapper(Run& run) {
  conf::TimePoint asked_for = conf::TimePoint::max();
  while (!run.leader_ended && !closing_) {
    const conf::TimePoint now = gateway::net::Now();
    if (run.record.kill_at < asked_for) {
      asked_for = run.record.kill_at;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(asked_for - now).count();
      run.leader.Queue(SIGTERM, static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX)));
      run.leader.Signal(SIGCONT);
    }
    const conf::TimePoint late = run.record.kill_at + options_.wrapper_patience;
    if (now >= late) {
      co_await SignalMembers(run, SIGKILL);
      run.killed = true;
      if (now >= late + options_.wrapper_patience) run.leader.Signal(SIGKILL);
    }
    co_await run.pause.For(now >= late ? options_.wrapper_patience / 4 : late - now);
    if (run.watch && !run.watch->works() && run.leader.ended()) run.leader_ended = true;
  }
}

// Ends what no wrapper ends. Returns when nothing is left.
Task<void> ProcessLauncher::EndMembers(Run& run) {
  size_t left = co_await SignalMembers(run, 0);
  if (left > 0 && run.state == RunState::kRunning && !closing_) {
    run.state = RunState::kStopping;
    run.since = gateway::net::Now();
    run.record.kill_at = run.since + options_.leftover_grace;
    co_await Save(run, run.state, run.since);
  }
  if (left > 0) left = co_await SignalMembers(run, SIGTERM);
  conf::Duration look = kFirstLook;
  while (!closing_ && !(left == 0 && run.leader_ended)) {
    const conf::TimePoint now = gateway::net::Now();
    const bool overdue = now >= run.record.kill_at;
    // The end of a first process wakes this; the others' does not.
    conf::Duration wait = look;
    if (!overdue) wait = std::min(wait, run.record.kill_at - now);
    look = std::min(2 * look, kLongestLook);
    if (overdue) {
      run.killed = true;
      co_await OffLoop(
          loop_, [host = host_.get(), cgroup = run.record.cgroup] { return host->KillCgroup(cgroup), true; });
      co_await SignalMembers(run, SIGKILL);
    }
    co_await run.pause.For(wait);
    if (closing_) break;
    left = co_await SignalMembers(run, 0);
  }
}

// To all of its processes; returns how many there were.
Task<size_t> ProcessLauncher::SignalMembers(Run& run, int signal) {
  co_return co_await OffLoop(
      loop_, [host = host_.get(), mark = MarkOf(run), signal] { return host->Signal(mark, signal); });
}

Task<void> ProcessLauncher::Conclude(Run& run, RunResult result) {
  RunRecord& record = run.record;
  const std::optional<gateway::net::ProcessEnd> end = run.leader ? run.leader.Reap() : std::nullopt;
  if (run.unreadable.empty()) {
    const conf::TimePoint now = gateway::net::Now();
    // The result is lost, or the run has no wrapper; a wrapper ends with its run's exit code.
    if (!result.end && end && (end->exit_code || !record.wrapped))
      result.end = {.ended = now, .exit_code = end->exit_code, .signal = end->signal, .killed = run.killed};
    SetEnd(record, result, now, run.killed);
    if (!record.why.empty() && !record.asked && run.secrets_known) {
      const std::string tail = co_await OffLoop(
          loop_, [log = run.folder.log(), secrets = run.secrets] { return LogTail(log, secrets); });
      if (!tail.empty()) record.why.append(kLastLines).append(tail);
    }
  }
  run.watch.reset();
  run.watch_first.reset();
  run.leader = {};
  run.first = {};
  const conf::TimePoint ended = record.ended.value_or(gateway::net::Now());
  co_await Save(run, RunState::kEnded, ended);
  co_await OffLoop(loop_,
                   [host = host_.get(), cgroup = record.cgroup] { return host->RemoveCgroup(cgroup), true; });
  run.state = RunState::kEnded;
  run.since = ended;
  run.ending = false;
  on_change(record.id);
}

// A failure costs a later gateway the knowledge of it, and nothing else.
Task<void> ProcessLauncher::Save(Run& run, RunState state, conf::TimePoint since) {
  if (!run.unreadable.empty()) co_return;
  run.record.state = state;
  run.record.since = since;
  co_await OffLoop(loop_, [record = run.record, folder = run.folder] { return folder.Save(record).ok(); });
}

// Records that were removed, and runs without a notification to this launcher.
Task<void> ProcessLauncher::CheckRuns() {
  while (co_await check_.For(options_.check_interval)) {
    for (auto next = runs_.begin(); next != runs_.end() && !closing_;) {
      const std::string id = next->first;
      Run& run = *next->second;
      const RunFolder folder = run.folder;
      const bool runs = run.state == RunState::kRunning && !run.ending;
      if (runs && !run.leader) {
        co_await CheckLeaderless(run);
      } else if (runs && run.watch && !run.watch->works() && run.leader.ended()) {
        LeaderEnded(run);
      } else if (runs && run.unreadable.empty() && access(folder.record().c_str(), F_OK) != 0) {
        co_await OffLoop(
            loop_, [&folder, record = run.record] { return folder.Make().ok() && folder.Save(record).ok(); });
      }
      next = runs_.upper_bound(id);  // others may have come and gone
    }
    if (closing_) co_return;
    if (options_.logs_bytes > 0) co_await CheckLogs();
  }
}

Task<void> ProcessLauncher::CheckLogs() {
  std::vector<KeptLog> logs;
  logs.reserve(runs_.size());
  for (const auto& [id, run] : runs_)
    logs.push_back({.path = run->folder.log(), .runs = run->state != RunState::kEnded, .since = run->since});
  co_await OffLoop(loop_, [&logs, most = options_.logs_bytes] { return TrimLogs(logs, most); });
}

// No process is known whose end would show the end of the run.
Task<void> ProcessLauncher::CheckLeaderless(Run& run) {
  if (co_await SignalMembers(run, 0) > 0 || run.ending || closing_) co_return;
  run.ending = true;
  co_await Conclude(run, RunResult());
}

Task<void> ProcessLauncher::CheckDevices() {
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
    if (closing_ || !co_await device_check_.For(options_.fault_interval)) co_return;
  }
}

}  // namespace plugins::launchers
