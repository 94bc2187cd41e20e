#include "plugins/launchers/run_members.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "conf/text.h"
#include "gateway/net/files.h"
#include "gateway/net/owner_rights.h"
#include "plugins/launchers/run_cgroup.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers {
namespace {

using gateway::net::ProcessHandle;
using gateway::net::ProcessStat;

constexpr size_t kMaxEnvironment = size_t{8} << 20;

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

struct Carried {
  std::string id{};
  std::string token{};
  std::optional<std::string> record{};
};

Carried MarkOf(pid_t pid) {
  Carried carried;
  for (auto& [name, value] : EnvironmentOf(pid)) {
    if (name == wrapper::kIdVariable) carried.id = std::move(value);
    if (name == wrapper::kTokenVariable) carried.token = std::move(value);
    if (name == wrapper::kRecordVariable) carried.record = std::move(value);
  }
  return carried;
}

bool CarriesMark(pid_t pid, const RunMark& mark) {
  if (mark.user && UidOf(pid) != mark.user) return false;
  const Carried carried = MarkOf(pid);
  return carried.id == mark.id && carried.token == mark.token;
}

bool PrintsTo(pid_t pid, const struct stat& log) {
  const gateway::net::AsOwner owner(fmt::format("/proc/{}/fd", pid));
  for (const int fd : {1, 2}) {
    struct stat open{};
    if (stat(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), &open) == 0 && open.st_dev == log.st_dev &&
        open.st_ino == log.st_ino)
      return true;
  }
  return false;
}

using Processes = std::map<pid_t, ProcessStat>;

Processes AllProcesses() {
  Processes all;
  for (const pid_t pid : AllPids()) {
    if (const std::optional<ProcessStat> stat = gateway::net::ReadProcessStat(pid)) all.emplace(pid, *stat);
  }
  return all;
}

bool Descends(const Processes& all, pid_t pid, pid_t ancestor) {
  // A pid that is used again while they are read may close a circle.
  for (size_t steps = 0; steps < all.size(); ++steps) {
    const auto process = all.find(pid);
    if (process == all.end()) return false;
    pid = process->second.parent;
    if (pid == ancestor) return true;
  }
  return false;
}

std::vector<Member> FindOnce(const RunMark& mark) {
  struct stat log{};
  const bool has_log = stat(mark.log.c_str(), &log) == 0;
  const std::vector<pid_t> in_cgroup = CgroupPids(mark.cgroup);
  const Processes all = AllProcesses();
  std::vector<Member> members;
  for (const auto& [pid, stat] : all) {
    if (stat.gone() || stat.start_ticks < mark.start_ticks || pid == mark.wrapper) continue;
    const bool in_session = mark.leader > 0 && (stat.session == mark.leader || stat.group == mark.leader);
    const bool belongs = (mark.wrapper > 0 && Descends(all, pid, mark.wrapper)) ||
                         (in_session && mark.session_is_ours) || std::ranges::count(in_cgroup, pid) > 0 ||
                         (in_session && has_log && PrintsTo(pid, log)) || CarriesMark(pid, mark);
    if (!belongs) continue;
    if (std::optional<ProcessHandle> process = ProcessHandle::Open(pid, stat.start_ticks))
      members.push_back({pid, std::move(*process)});
  }
  return members;
}

std::vector<std::string> SplitAtNul(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    words.emplace_back(word);
  }
  return words;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string path = fmt::format("/proc/{}/environ", pid);
  const gateway::net::AsOwner owner(path);
  const std::string text = gateway::net::ReadFile(path, kMaxEnvironment).value_or("");
  for (const std::string& entry : SplitAtNul(text)) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) out.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return out;
}

std::vector<std::string> CommandOf(pid_t pid) {
  return SplitAtNul(
      gateway::net::ReadFile(fmt::format("/proc/{}/cmdline", pid), kMaxEnvironment).value_or(""));
}

// Not the owner of its folder, which is root if the process may not be examined.
std::optional<uid_t> UidOf(pid_t pid) {
  const std::string status =
      gateway::net::ReadFile(fmt::format("/proc/{}/status", pid), size_t{64} << 10).value_or("");
  constexpr std::string_view kLine = "\nUid:\t";
  const size_t at = status.find(kLine);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(status).substr(at + kLine.size());
  return conf::ReadNumber<uid_t>(rest.substr(0, rest.find('\t')));
}

std::map<std::string, std::optional<FoundWrapper>> FindRuns(const std::string& token,
                                                            std::optional<uid_t> owner) {
  std::map<std::string, std::optional<FoundWrapper>> runs;
  const Processes all = AllProcesses();
  std::set<pid_t> with_record;
  for (const auto& [pid, stat] : all) {
    if (stat.gone()) continue;
    Carried carried = MarkOf(pid);
    if (carried.token != token || carried.id.empty()) continue;
    std::optional<FoundWrapper>& run = runs[carried.id];
    if (!carried.record || (owner && UidOf(pid) != owner)) continue;
    // A child that has not become its program yet still has its wrapper's environment.
    with_record.insert(pid);
    if (run && run->pid == stat.parent) continue;
    if (with_record.contains(stat.parent)) continue;
    if (std::optional<ProcessHandle> process = ProcessHandle::Open(pid, stat.start_ticks))
      run = FoundWrapper{pid, stat.start_ticks, std::move(*process), *std::move(carried.record)};
  }
  return runs;
}

std::vector<Member> FindMembers(const RunMark& mark) {
  std::vector<Member> members = FindOnce(mark);
  // A process that forks and ends during the look is missed with its child, and one that just becomes its
  // program has no environment yet.
  return members.empty() ? FindOnce(mark) : std::move(members);
}

}  // namespace plugins::launchers
