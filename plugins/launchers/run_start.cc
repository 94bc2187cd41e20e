#include "plugins/launchers/run_start.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "gateway/net/fd.h"
#include "plugins/launchers/run_log.h"
#include "plugins/launchers/run_members.h"
#include "plugins/launchers/visible_devices.h"

namespace plugins::launchers {
namespace {

using gateway::net::Fd;
using gateway::net::HeldChild;

// What programs need to find their libraries, weights and network; not what a gateway is given for itself.
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

std::string Fill(const std::string& text, const RunSpec& spec, const std::string& port) {
  return absl::StrReplaceAll(text, {{"{port}", port}, {"{node}", spec.grant.node}, {"{id}", spec.id}});
}

bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

absl::Status CheckEnvName(const std::string& name) {
  if (name.empty() || name.find('=') != std::string::npos || HasNul(name))
    return absl::InvalidArgumentError(fmt::format("env: \"{}\" cannot be the name of a variable", name));
  if (name == kRunIdName || name == kRunTokenName)
    return absl::InvalidArgumentError(fmt::format("env: {} is set by the launcher", name));
  if (IsVisibilityVariable(name)) {
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
  if (spec.command.empty() || spec.command.front().empty())
    return absl::InvalidArgumentError("the command is empty");
  for (const std::string& word : spec.command) {
    if (HasNul(word)) return absl::InvalidArgumentError("the command has a zero byte");
    if (!spec.serves && word.find("{port}") != std::string::npos)
      return absl::InvalidArgumentError(fmt::format("\"{}\" names a port, and the run serves nothing", word));
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

// Everything up to the moment when the process is there and held.
absl::StatusOr<std::unique_ptr<HeldChild>> Hold(const RunPlan& plan, const RunFolder& folder, int lock) {
  if (absl::Status missing = CheckDirectory(plan.record.directory); !missing.ok()) return missing;
  absl::StatusOr<std::string> program =
      gateway::net::FindProgram(plan.argv.front(), plan.search_path, plan.record.directory);
  if (!program.ok()) return program.status();
  if (absl::Status made = folder.Make(); !made.ok()) return made;
  absl::StatusOr<Fd> log = OpenLog(folder.log());
  if (!log.ok()) return log.status();
  return HeldChild::Make({.program = std::move(*program),
                          .argv = plan.argv,
                          .env = plan.env,
                          .directory = plan.record.directory,
                          .until_run = lock,
                          .output = log->get()});
}

absl::Status Undo(const RunFolder& folder, const absl::Status& failed) {
  const absl::Status removed = folder.Remove();
  if (removed.ok()) return failed;
  return {failed.code(),
          fmt::format("{} ({})", std::string(failed.message()), std::string(removed.message()))};
}

}  // namespace

std::span<const std::string_view> InheritedVariables() {
  return kInherited;
}

absl::StatusOr<RunPlan> PlanRun(RunSpec spec, std::span<const devices::LocalNode> nodes, uint16_t port,
                                const std::string& token) {
  if (absl::Status bad = Check(spec); !bad.ok()) return bad;
  auto visible = VisibleDevices(spec.grant, nodes);
  if (!visible.ok()) return visible.status();

  RunPlan plan;
  const std::string port_text = std::to_string(port);
  plan.argv.reserve(spec.command.size());
  for (const std::string& word : spec.command) plan.argv.push_back(Fill(word, spec, port_text));

  std::map<std::string, std::string> env;
  for (const std::string_view name : kInherited) {
    if (const char* value = std::getenv(std::string(name).c_str())) env.emplace(name, value);
  }
  for (const auto& [name, value] : spec.env) {
    std::string filled = Fill(value, spec, port_text);
    if (filled.size() >= kShortestSecret) plan.secrets.push_back(filled);
    plan.record.env_names.push_back(name);
    env.insert_or_assign(name, std::move(filled));
  }
  for (auto& [name, value] : *visible) env.insert_or_assign(name, std::move(value));
  env.insert_or_assign(std::string(kRunIdName), spec.id);
  env.insert_or_assign(std::string(kRunTokenName), token);
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
  plan.record.serves = spec.serves;
  plan.record.port = port;
  return plan;
}

absl::StatusOr<StartedRun> StartRun(RunPlan plan, const RunFolder& folder, int lock, conf::TimePoint now) {
  // 1. A process that is held. Killed here: it ends by itself, and a folder without a record is no run.
  absl::StatusOr<std::unique_ptr<HeldChild>> held = Hold(plan, folder, lock);
  absl::Status failed = held.status();
  RunRecord& record = plan.record;
  if (failed.ok()) {
    const auto stat = gateway::net::ReadProcessStat((*held)->pid());
    record.boot = gateway::net::BootId();
    record.pid = (*held)->pid();
    record.since = now;
    record.state = RunState::kRunning;
    if (stat) record.start_ticks = stat->start_ticks;
    // 2. Its record, durable. Killed here: it ends by itself, before a later gateway gets the lock.
    failed =
        stat ? folder.Save(record) : absl::UnavailableError("the process was ended while it was started");
  }
  if (!failed.ok()) {
    if (held.ok()) held->reset();
    return Undo(folder, failed);
  }
  // 3. It runs. Killed from here on: it goes on, and is found again by its record.
  absl::StatusOr<gateway::net::ProcessHandle> process = (*held)->Release();
  if (!process.ok()) return Undo(folder, process.status());
  return StartedRun{.record = std::move(record), .process = std::move(*process)};
}

}  // namespace plugins::launchers
