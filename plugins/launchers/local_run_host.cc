#include "plugins/launchers/local_run_host.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "conf/text.h"
#include "gateway/net/child_process.h"
#include "gateway/net/files.h"
#include "plugins/launchers/run_cgroup.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers {
namespace {

using gateway::net::Fd;
using gateway::net::HeldChild;
using gateway::net::ProcessHandle;

constexpr int kOomScore = 500;  // the system ends a run before it ends the gateway

static_assert(wrapper::kEnvironmentFd == gateway::net::kGivenFd);

class HeldWrapper final : public HeldRun {
 public:
  HeldWrapper(std::unique_ptr<HeldChild> child, uint64_t start_ticks)
      : child_(std::move(child)), start_ticks_(start_ticks) {}
  pid_t pid() const override { return child_->pid(); }
  uint64_t start_ticks() const override { return start_ticks_; }
  absl::StatusOr<ProcessHandle> Release() override { return child_->Release(); }

 private:
  const std::unique_ptr<HeldChild> child_;
  const uint64_t start_ticks_;
};

// In memory alone: it may hold secrets.
absl::StatusOr<Fd> EnvironmentFile(const std::vector<std::string>& env) {
  Fd file(memfd_create("environment", MFD_CLOEXEC));
  if (!file) return gateway::net::SystemError("make", "a run's environment", errno);
  std::string text;
  for (const std::string& entry : env) text.append(entry).push_back('\0');
  const absl::Status wrote = gateway::net::WriteAll(file.get(), "a run's environment", text);
  if (!wrote.ok()) return wrote;
  return file;
}

std::string Number(uint64_t value) {
  return value == 0 ? std::string() : std::to_string(value);
}

std::string IdentityOf(const RunUser& user) {
  std::string text = fmt::format("{}:{}", user.uid, user.gid);
  for (const gid_t group : user.groups) text += fmt::format(",{}", group);
  return text;
}

}  // namespace

LocalRunHost::LocalRunHost(Options options)
    : options_(std::move(options)),
      cgroups_(options_.cgroups ? OpenCgroups(options_.token) : std::string()) {}

absl::StatusOr<RunUser> LocalRunHost::UserOf(const std::string& name) const {
  const auto found = std::ranges::find(options_.users, name, &RunUser::name);
  if (found != options_.users.end()) return *found;
  return absl::InvalidArgumentError(
      fmt::format("runs could not become the user {} when the gateway started; start it again", name));
}

absl::StatusOr<std::unique_ptr<HeldRun>> LocalRunHost::Hold(const RunOrder& order, int log, int until_run) {
  std::string owner;
  std::string user;
  if (!order.user.empty()) {
    const absl::StatusOr<RunUser> who = UserOf(order.user);
    if (!who.ok()) return who.status();
    owner = fmt::format("{}:{}", options_.owner, options_.owner_group);
    user = IdentityOf(*who);
  }
  const absl::StatusOr<Fd> environment = EnvironmentFile(order.env);
  if (!environment.ok()) return environment.status();
  const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(order.grace);
  std::vector<std::string> argv{
      wrapper::kName,
      order.id,
      order.result,
      order.log,
      fmt::format("{}:{}", order.log_bytes, order.log_floor),
      order.cgroup,
      std::to_string(grace.count()),
      std::move(owner),
      std::move(user),
      fmt::format("{}:{}:{}:{}", Number(order.limits.processes), Number(order.limits.open_files),
                  Number(order.limits.file_bytes), kOomScore),
      order.directory,
      order.program};
  argv.insert(argv.end(), order.argv.begin(), order.argv.end());
  absl::StatusOr<std::unique_ptr<HeldChild>> child =
      HeldChild::Make({.program = options_.wrapper,
                       .argv = std::move(argv),
                       .env = {fmt::format("{}={}", wrapper::kIdVariable, order.id),
                               fmt::format("{}={}", wrapper::kTokenVariable, options_.token),
                               fmt::format("{}={}", wrapper::kRecordVariable, order.record)},
                       .directory = order.directory,
                       .until_run = until_run,
                       .output = log,
                       .given = environment->get(),
                       .reports = true,
                       .wraps = order.program});
  if (!child.ok()) return child.status();
  const auto stat = gateway::net::ReadProcessStat((*child)->pid());
  if (!stat) return absl::UnavailableError("the process was ended while it was started");
  return std::make_unique<HeldWrapper>(*std::move(child), stat->start_ticks);
}

std::map<std::string, std::optional<FoundWrapper>> LocalRunHost::FindRuns() {
  const std::optional<uid_t> owner = options_.users.empty() ? std::nullopt : std::optional(options_.owner);
  std::map<std::string, std::optional<FoundWrapper>> runs = launchers::FindRuns(options_.token, owner);
  for (const std::string& id : PopulatedCgroups(cgroups_)) runs[id];
  return runs;
}

size_t LocalRunHost::Signal(const RunMark& mark, int signal) {
  RunMark ours = mark;
  ours.token = options_.token;
  const std::vector<Member> members = FindMembers(ours);
  for (const Member& member : members) {
    if (signal != 0 && MaySignal(member.pid)) member.process.Signal(signal);
  }
  return members.size();
}

gateway::net::PortUse LocalRunHost::CheckPort(const RunMark& mark, const std::string& host, uint16_t port) {
  RunMark ours = mark;
  ours.token = options_.token;
  std::vector<pid_t> pids;
  for (const Member& member : FindMembers(ours)) pids.push_back(member.pid);
  return gateway::net::CheckPort(host, port, pids);
}

// The rights of this process may be greater than those of the requesting process.
bool LocalRunHost::MaySignal(pid_t pid) const {
  if (options_.users.empty()) return true;
  const std::optional<uid_t> uid = UidOf(pid);
  return uid && (*uid == options_.owner || std::ranges::count(options_.users, *uid, &RunUser::uid) > 0);
}

std::vector<std::pair<std::string, std::string>> LocalRunHost::EnvironmentOf(pid_t pid) {
  std::vector<std::pair<std::string, std::string>> variables = launchers::EnvironmentOf(pid);
  const bool is_ours = std::ranges::count(variables, std::pair<std::string, std::string>(
                                                         wrapper::kTokenVariable, options_.token)) > 0;
  if (!is_ours) variables.clear();
  return variables;
}

std::string LocalRunHost::MakeCgroup(const std::string& id, const RunLimits& limits) {
  return MakeRunCgroup(cgroups_, id, limits);
}

void LocalRunHost::KillCgroup(const std::string& cgroup) {
  launchers::KillCgroup(cgroup);
}

void LocalRunHost::RemoveCgroup(const std::string& cgroup) {
  launchers::RemoveCgroup(cgroup);
}

}  // namespace plugins::launchers
