#include "gateway/net/resource_owner.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::net {
namespace {

constexpr size_t kMaxTable = size_t{16} << 20;

// As links of /proc/PID/fd have them: "socket:[4711]".
std::set<std::string> SocketsOn(uint16_t port) {
  std::set<std::string> sockets;
  const std::string suffix = fmt::format(":{:04X}", port);
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadFile(table, kMaxTable).value_or("");
    for (const auto line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr std::string_view kListens = "0A";
      if (words.size() > 9 && words[1].ends_with(suffix) && words[3] == kListens)
        sockets.insert(fmt::format("socket:[{}]", words[9]));
    }
  }
  return sockets;
}

bool Holds(const std::filesystem::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (std::filesystem::directory_iterator fd(process / "fd", error), end; !error && fd != end;
       fd.increment(error)) {
    std::error_code gone;
    if (sockets.contains(std::filesystem::read_symlink(fd->path(), gone))) return true;
  }
  return false;
}

std::string NameOf(const std::string& pid) {
  std::string name = ReadFile("/proc/" + pid + "/comm", 256).value_or("");
  while (name.ends_with('\n')) name.pop_back();
  return fmt::format("process {} ({})", pid, name);
}

}  // namespace

std::string PortOwner(uint16_t port) {
  const std::set<std::string> sockets = SocketsOn(port);
  if (sockets.empty()) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string pid = process->path().filename();
    if (!conf::ReadNumber<pid_t>(pid) || !Holds(process->path(), sockets)) continue;
    return NameOf(pid);
  }
  return "a process of another user";
}

PortUse LookAtPort(uint16_t port, std::span<const pid_t> processes) {
  const std::set<std::string> sockets = SocketsOn(port);
  return {.taken = !sockets.empty(),
          .by_one_of_these = !sockets.empty() && std::ranges::any_of(processes, [&](pid_t pid) {
            return Holds(fmt::format("/proc/{}", pid), sockets);
          })};
}

std::string LockOwner(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return {};
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  const std::string text = ReadFile("/proc/locks", kMaxTable).value_or("");
  for (const auto line : absl::StrSplit(text, '\n')) {
    // "7: FLOCK  ADVISORY  WRITE 4711 fe:00:123456 0 EOF"
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 5 && words[1] == "FLOCK" && words[5] == file) return NameOf(words[4]);
  }
  return {};
}

}  // namespace gateway::net
