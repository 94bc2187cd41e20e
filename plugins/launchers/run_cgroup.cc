#include "plugins/launchers/run_cgroup.h"

#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace plugins::launchers {
namespace {

constexpr size_t kMaxFile = size_t{1} << 20;
constexpr size_t kTokenPart = 16;  // enough to distinguish state directories

std::string ReadProc(const std::string& path) {
  return gateway::net::ReadFile(path, kMaxFile).value_or("");
}

// Where the cgroup2 hierarchy is mounted; empty where it is not.
std::string Mount() {
  const std::string mounts = ReadProc("/proc/self/mounts");
  for (const auto line : absl::StrSplit(mounts, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() > 2 && words[2] == "cgroup2") return words[1];
  }
  return {};
}

// The gateway's own cgroup within it; empty where it has none.
std::string OwnPath() {
  const std::string cgroups = ReadProc("/proc/self/cgroup");
  for (const auto line : absl::StrSplit(cgroups, '\n')) {
    const std::string text(line);
    if (text.starts_with("0::/")) return text.substr(3);
  }
  return {};
}

bool Write(const std::string& file, std::string_view text) {
  const absl::StatusOr<gateway::net::Fd> open = gateway::net::OpenFile(file, O_WRONLY);
  return open.ok() && write(open->get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

CgroupPlace OwnCgroup() {
  CgroupPlace place{.mount = Mount(), .own = OwnPath()};
  const size_t slash = place.own.rfind('/');
  if (place.mount.empty() || slash == std::string::npos || slash == 0) return place;
  const std::string above = place.mount + place.own.substr(0, slash);
  // systemd marks what it has delegated.
  for (const char* const mark : {"trusted.delegate", "user.delegate"}) {
    char value[2]{};
    place.delegated |= getxattr(above.c_str(), mark, value, sizeof value) == 1 && value[0] == '1';
  }
  return place;
}

std::string OpenCgroups(std::string_view token, const CgroupPlace& place) {
  if (place.mount.empty() || place.own.empty()) return {};
  std::string home = place.mount + (place.own == "/" ? "" : place.own);
  const std::string above = home.substr(0, home.rfind('/'));
  if (place.delegated && CgroupPids(above).empty()) home = above;
  std::string cgroups = fmt::format("{}/tidegate-{}", home, token.substr(0, kTokenPart));
  if (mkdir(cgroups.c_str(), 0755) != 0 && errno != EEXIST) return {};
  // Moving a process needs the right to write here and in the common ancestor.
  const bool usable = access((cgroups + "/cgroup.procs").c_str(), W_OK) == 0 &&
                      access((home + "/cgroup.procs").c_str(), W_OK) == 0;
  if (!usable) return {};
  // The root alone has no type; it may have processes, too.
  const bool is_root = access((home + "/cgroup.type").c_str(), F_OK) != 0;
  if (!is_root && !CgroupPids(home).empty()) return cgroups;
  for (const std::string_view controller : {"+pids", "+memory"}) {
    Write(home + "/cgroup.subtree_control", controller);
    Write(cgroups + "/cgroup.subtree_control", controller);
  }
  return cgroups;
}

std::string MakeRunCgroup(const std::string& cgroups, const std::string& id, const RunLimits& limits) {
  if (cgroups.empty()) return {};
  std::string cgroup = fmt::format("{}/{}", cgroups, id);
  if (mkdir(cgroup.c_str(), 0755) != 0 && errno != EEXIST) return {};
  if (limits.processes > 0) Write(cgroup + "/pids.max", std::to_string(limits.processes));
  if (limits.memory_mib > 0) {
    Write(cgroup + "/memory.max", std::to_string(limits.memory_mib << 20));
    Write(cgroup + "/memory.oom.group", "1");
  }
  return cgroup;
}

std::vector<std::string> PopulatedCgroups(const std::string& cgroups) {
  std::vector<std::string> ids;
  if (cgroups.empty()) return ids;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(cgroups, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error) && !CgroupPids(entry->path()).empty())
      ids.push_back(entry->path().filename());
  }
  std::ranges::sort(ids);
  return ids;
}

std::vector<pid_t> CgroupPids(const std::string& cgroup) {
  std::vector<pid_t> pids;
  if (cgroup.empty()) return pids;
  const std::string text = ReadProc(cgroup + "/cgroup.procs");
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (const std::optional<pid_t> pid = conf::ReadNumber<pid_t>(conf::Std(line))) pids.push_back(*pid);
  }
  return pids;
}

bool KillCgroup(const std::string& cgroup) {
  if (cgroup.empty()) return false;
  return Write(cgroup + "/cgroup.kill", "1");
}

void RemoveCgroup(const std::string& cgroup) {
  if (!cgroup.empty()) rmdir(cgroup.c_str());
}

}  // namespace plugins::launchers
