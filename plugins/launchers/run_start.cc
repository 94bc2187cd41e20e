#include "plugins/launchers/run_start.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "gateway/net/child_process.h"
#include "gateway/net/fd.h"
#include "plugins/launchers/mps.h"
#include "plugins/launchers/run_log.h"
#include "plugins/launchers/run_result.h"
#include "plugins/launchers/visible_devices.h"
#include "plugins/launchers/wrapper/protocol.h"
#include "plugins/weights/order.h"

namespace plugins::launchers {
namespace {

using gateway::net::Fd;

// Variables by which programs find their libraries, weights and network; none that holds a gateway's secrets.
constexpr std::array<std::string_view, 17> kInherited{"PATH",
                                                      "HOME",
                                                      "USER",
                                                      "LOGNAME",
                                                      "SHELL",
                                                      "LANG",
                                                      "LC_ALL",
                                                      "TZ",
                                                      "TMPDIR",
                                                      "LD_LIBRARY_PATH",
                                                      "CUDA_HOME",
                                                      "ASCEND_HOME_PATH",
                                                      "ASCEND_TOOLKIT_HOME",
                                                      "ASCEND_OPP_PATH",
                                                      "PYTHONPATH",
                                                      "HF_HOME",
                                                      "XDG_CACHE_HOME"};
constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

absl::Status CheckEnvName(const std::string& name) {
  if (name.empty() || name.find('=') != std::string::npos || HasNul(name))
    return absl::InvalidArgumentError(fmt::format("env: \"{}\" cannot be the name of a variable", name));
  if (name == wrapper::kIdVariable || name == wrapper::kTokenVariable || name == wrapper::kRecordVariable ||
      name == weights::kOrderVariable)
    return absl::InvalidArgumentError(fmt::format("env: {} is set by the launcher", name));
  if (IsVisibilityVariable(name) || IsMpsVariable(name)) {
    return absl::InvalidArgumentError(
        fmt::format("env: {} is set by the launcher, from the devices that the planner gave", name));
  }
  return absl::OkStatus();
}

absl::Status Check(const RunSpec& spec) {
  if (!IsRunId(spec.id)) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" cannot be the id of a run: lower-case letters, digits, '.' and '-', at most 63", spec.id));
  }
  const bool fetches_alone = spec.command.empty() && spec.weights;
  if (!fetches_alone && (spec.command.empty() || spec.command.front().empty()))
    return absl::InvalidArgumentError("the command is empty");
  for (const std::string& word : spec.command) {
    if (HasNul(word)) return absl::InvalidArgumentError("the command has a zero byte");
    if (!spec.serves && word.find("{port}") != std::string::npos)
      return absl::InvalidArgumentError(fmt::format("\"{}\" names a port, but the run has none", word));
  }
  for (const auto& [name, value] : spec.env) {
    if (absl::Status bad = CheckEnvName(name); !bad.ok()) return bad;
    if (HasNul(value)) return absl::InvalidArgumentError(fmt::format("env: {} has a zero byte", name));
  }
  return absl::OkStatus();
}

absl::Status CheckDirectory(const std::string& directory) {
  if (directory.empty()) return absl::OkStatus();
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("the run's directory {}: {}", directory,
                                                error ? error.message() : "it is not a directory"));
}

// The path of this program; empty: not known. After an upgrade it is the program that has replaced this one.
std::string ThisProgram() {
  constexpr std::string_view kReplaced = " (deleted)";
  std::error_code error;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return {};
  if (self.ends_with(kReplaced)) self.resize(self.size() - kReplaced.size());
  return self;
}

// Without its command, which may be longer than one variable can be; the wrapper's own arguments have that.
std::string RecordForWrapper(RunRecord record) {
  record.command.clear();
  return WriteRecord(record, RecordLayout::kLine);
}

// Everything up to the moment when the process exists and is held.
absl::StatusOr<std::unique_ptr<HeldRun>> Hold(RunPlan& plan, const RunFolder& folder, RunHost& host,
                                              const StartOptions& options) {
  // Where the run is another user's, it is for that user to go there.
  if (plan.record.user.empty()) {
    if (absl::Status missing = CheckDirectory(plan.record.directory); !missing.ok()) return missing;
  }
  absl::StatusOr<std::string> program =
      gateway::net::FindProgram(plan.argv.front(), plan.search_path, plan.record.directory);
  if (!program.ok()) return program.status();
  if (absl::Status made = folder.Make(); !made.ok()) return made;
  absl::StatusOr<Fd> log = OpenLog(folder.log());
  if (!log.ok()) return log.status();
  if (absl::Status made = MakeResultFile(folder.result()); !made.ok()) return made;
  RunLimits limits = options.limits;
  limits.memory_mib = plan.record.user.empty() ? 0 : plan.record.grant.memory_mib;
  plan.record.cgroup = host.MakeCgroup(plan.record.id, limits);
  return host.Hold({.id = plan.record.id,
                    .user = plan.record.user,
                    .program = *std::move(program),
                    .argv = plan.argv,
                    .env = plan.env,
                    .directory = plan.record.directory,
                    .cgroup = plan.record.cgroup,
                    .record = RecordForWrapper(plan.record),
                    .result = std::filesystem::absolute(folder.result()).string(),
                    .log = std::filesystem::absolute(folder.log()).string(),
                    .log_bytes = options.log_bytes,
                    .log_floor = options.log_floor,
                    .grace = options.grace,
                    .limits = limits},
                   log->get(), options.lock);
}

absl::Status Undo(const RunFolder& folder, RunHost& host, const std::string& cgroup,
                  const absl::Status& failed) {
  host.RemoveCgroup(cgroup);
  const absl::Status removed = folder.Remove();
  if (removed.ok()) return failed;
  return {failed.code(),
          fmt::format("{} ({})", std::string(failed.message()), std::string(removed.message()))};
}

}  // namespace

std::span<const std::string_view> InheritedVariables() {
  return kInherited;
}

absl::StatusOr<RunPlan> PlanRun(RunSpec spec, std::span<const devices::LocalNode> nodes, const ListenAt& at,
                                const std::string& token, const RunUser* user) {
  if (absl::Status bad = Check(spec); !bad.ok()) return bad;
  auto visible = VisibleDevices(spec.grant, nodes);
  if (!visible.ok()) return visible.status();

  RunPlan plan;
  plan.argv = CommandWithStep(spec, at, ThisProgram());
  if (spec.weights && plan.argv.front().empty())
    return absl::FailedPreconditionError("the program tidegate, which fetches weights, was not found");

  std::map<std::string, std::string> env;
  for (const std::string_view name : kInherited) {
    if (const char* value = std::getenv(std::string(name).c_str())) env.emplace(name, value);
  }
  if (user != nullptr) {
    env["HOME"] = user->home;
    env["USER"] = env["LOGNAME"] = user->name;
    env.erase("XDG_CACHE_HOME");
  }
  for (const auto& [name, value] : spec.env) {
    std::string filled = FillPlaceholders(value, spec, at);
    if (filled.size() >= kShortestSecret) plan.secrets.push_back(filled);
    plan.record.env_names.push_back(name);
    env.insert_or_assign(name, std::move(filled));
  }
  for (auto& [name, value] : *visible) env.insert_or_assign(name, std::move(value));
  if (spec.weights) env.insert_or_assign(weights::kOrderVariable, spec.weights->order);
  env.insert_or_assign(wrapper::kIdVariable, spec.id);
  env.insert_or_assign(wrapper::kTokenVariable, token);
  const auto path = env.find("PATH");
  plan.search_path = path == env.end() ? kDefaultPath : path->second;
  plan.env.reserve(env.size());
  for (const auto& [name, value] : env) plan.env.push_back(fmt::format("{}={}", name, value));

  plan.record.id = std::move(spec.id);
  plan.record.owner = std::move(spec.owner);
  plan.record.tenant = std::move(spec.tenant);
  plan.record.grant = std::move(spec.grant);
  plan.record.command = std::move(spec.command);
  plan.record.directory = std::move(spec.directory);
  if (user != nullptr) plan.record.user = user->name;
  plan.record.serves = spec.serves;
  plan.record.port = at.port;
  return plan;
}

absl::StatusOr<StartedRun> StartRun(RunPlan plan, const RunFolder& folder, RunHost& host,
                                    const StartOptions& options, conf::TimePoint now) {
  // 1. A process that is held. Killed here: it ends by itself, and a folder without a record is no run.
  absl::StatusOr<std::unique_ptr<HeldRun>> held = Hold(plan, folder, host, options);
  absl::Status failed = held.status();
  RunRecord& record = plan.record;
  if (failed.ok()) {
    record.boot = gateway::net::BootId();
    record.pid = (*held)->pid();
    record.since = now;
    record.state = RunState::kRunning;
    record.start_ticks = (*held)->start_ticks();
    // 2. Its record, durable. Killed here: it ends by itself, before a later gateway gets the lock.
    failed = folder.Save(record);
  }
  if (!failed.ok()) {
    if (held.ok()) held->reset();
    return Undo(folder, host, record.cgroup, failed);
  }
  // 3. It becomes the wrapper, which starts the run. Killed from here on: it continues, and is found again by
  // its record, or by what it carries.
  absl::StatusOr<gateway::net::ProcessHandle> process = (*held)->Release();
  if (!process.ok()) return Undo(folder, host, record.cgroup, process.status());
  StartedRun run{.record = std::move(record), .wrapper = std::move(*process), .first = {}, .first_pid = 0};
  run.record.started = now;
  // The wrapper has written it before it let go of the reports' pipe.
  const absl::StatusOr<RunResult> result = ReadResultFile(folder.result());
  if (result.ok() && result->beginning) {
    run.record.started = result->beginning->started;
    run.first_pid = result->beginning->child;
    if (auto first =
            gateway::net::ProcessHandle::Open(result->beginning->child, result->beginning->child_ticks))
      run.first = std::move(*first);
  }
  return run;
}

}  // namespace plugins::launchers
