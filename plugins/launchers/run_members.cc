#include "plugins/launchers/run_members.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "conf/text.h"
#include "plugins/launchers/files.h"

namespace plugins::launchers {
namespace {

using gateway::net::ProcessHandle;
using gateway::net::ProcessStat;

constexpr size_t kMaxEnvironment = size_t{1} << 20;

std::vector<pid_t> AllPids() {
  struct CloseDir {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, CloseDir> proc(opendir("/proc"));
  if (!proc) return pids;
  while (const dirent* entry = readdir(proc.get())) {
    if (const std::optional<pid_t> pid = conf::ReadNumber<pid_t>(entry->d_name)) pids.push_back(*pid);
  }
  std::ranges::sort(pids);
  return pids;
}

bool CarriesMark(pid_t pid, const RunMark& mark) {
  bool id = false;
  bool token = false;
  for (const auto& [name, value] : EnvironmentOf(pid)) {
    id = id || (name == kRunIdName && value == mark.id);
    token = token || (name == kRunTokenName && value == mark.token);
  }
  return id && token;
}

bool PrintsTo(pid_t pid, const struct stat& log) {
  for (const int fd : {1, 2}) {
    struct stat open{};
    if (stat(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), &open) == 0 && open.st_dev == log.st_dev &&
        open.st_ino == log.st_ino)
      return true;
  }
  return false;
}

std::vector<Member> LookOnce(const RunMark& mark) {
  struct stat log{};
  const bool has_log = stat(mark.log.c_str(), &log) == 0;
  std::vector<Member> members;
  for (const pid_t pid : AllPids()) {
    const std::optional<ProcessStat> stat = gateway::net::ReadProcessStat(pid);
    if (!stat || stat->gone() || stat->start_ticks < mark.start_ticks) continue;
    const bool in_session = mark.leader > 0 && (stat->session == mark.leader || stat->group == mark.leader);
    const bool belongs = (in_session && mark.session_is_ours) ||
                         (in_session && has_log && PrintsTo(pid, log)) || CarriesMark(pid, mark);
    if (!belongs) continue;
    if (std::optional<ProcessHandle> process = ProcessHandle::Open(pid, stat->start_ticks))
      members.push_back({pid, std::move(*process)});
  }
  return members;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid) {
  std::vector<std::pair<std::string, std::string>> out;
  const absl::StatusOr<std::string> text =
      ReadSmallFile(fmt::format("/proc/{}/environ", pid), kMaxEnvironment);
  if (!text.ok()) return out;
  std::string_view left = *text;
  while (!left.empty()) {
    const std::string_view entry = left.substr(0, left.find('\0'));
    left.remove_prefix(std::min(left.size(), entry.size() + 1));
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      out.emplace_back(std::string(entry.substr(0, equals)), std::string(entry.substr(equals + 1)));
  }
  return out;
}

std::vector<Member> FindMembers(const RunMark& mark) {
  std::vector<Member> members = LookOnce(mark);
  // One that forks and ends while it is looked for is missed with its child, and one that is just being run
  // has no environment yet.
  return members.empty() ? LookOnce(mark) : std::move(members);
}

}  // namespace plugins::launchers
