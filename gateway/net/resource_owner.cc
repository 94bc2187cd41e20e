#include "gateway/net/resource_owner.h"

#include <absl/strings/str_split.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "conf/text.h"
#include "gateway/net/files.h"
#include "gateway/net/owner_rights.h"

namespace gateway::net {
namespace {

constexpr size_t kMaxTable = size_t{16} << 20;

// The address in the form of the kernel's tables of sockets: each word of four bytes as a number of this machine.
std::string TableForm(const in6_addr& address) {
  std::array<uint32_t, 4> words{};
  std::memcpy(words.data(), &address, sizeof address);
  return fmt::format("{:08X}{:08X}{:08X}{:08X}", words[0], words[1], words[2], words[3]);
}

// Where a process listens that gets connections to `host`. Empty: `host` is no number.
std::set<std::string> PlacesOf(const std::string& host) {
  const std::string any = TableForm(in6addr_any);
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    in6_addr mapped{};
    inet_pton(AF_INET6, ("::ffff:" + host).c_str(), &mapped);
    return {fmt::format("{:08X}", INADDR_ANY), fmt::format("{:08X}", v4.s_addr), any, TableForm(mapped)};
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return {any, TableForm(v6)};
  return {};
}

// The sockets that listen on the port, in the form of the links of /proc/PID/fd: "socket:[4711]". Without `places`: at
// any address.
std::set<std::string> SocketsOn(uint16_t port, const std::set<std::string>& places = {}) {
  std::set<std::string> sockets;
  const std::string suffix = fmt::format(":{:04X}", port);
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadFile(table, kMaxTable).value_or("");
    for (const auto line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr std::string_view kListens = "0A";
      if (words.size() <= 9 || !words[1].ends_with(suffix) || words[3] != kListens) continue;
      if (places.empty() || places.contains(words[1].substr(0, words[1].size() - suffix.size())))
        sockets.insert(fmt::format("socket:[{}]", words[9]));
    }
  }
  return sockets;
}

std::set<std::string> HeldBy(const std::filesystem::path& process, const std::set<std::string>& sockets) {
  std::set<std::string> held;
  const AsOwner owner(process / "fd");
  std::error_code error;
  for (std::filesystem::directory_iterator fd(process / "fd", error), end; !error && fd != end;
       fd.increment(error)) {
    std::error_code gone;
    std::string link = std::filesystem::read_symlink(fd->path(), gone);
    if (sockets.contains(link)) held.insert(std::move(link));
  }
  return held;
}

// Whether the kernel gives the port to a socket of ours, on all addresses. Cheap, however many connections the
// machine has; without IPv6 it cannot be asked so.
bool NobodyListens(uint16_t port) {
  const Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(port);
  return socket && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
         setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
         bind(socket.get(), reinterpret_cast<const sockaddr*>(&all), sizeof all) == 0;
}

std::string NameOf(const std::string& pid) {
  std::string name = ReadFile("/proc/" + pid + "/comm", 256).value_or("");
  while (name.ends_with('\n')) name.pop_back();
  return fmt::format("process {} ({})", pid, name);
}

}  // namespace

std::string PortOwner(uint16_t port) {
  if (NobodyListens(port)) return {};
  const std::set<std::string> sockets = SocketsOn(port);
  if (sockets.empty()) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string pid = process->path().filename();
    if (!conf::ReadNumber<pid_t>(pid) || HeldBy(process->path(), sockets).empty()) continue;
    return NameOf(pid);
  }
  return "another process";
}

PortUse CheckPort(const std::string& host, uint16_t port, std::span<const pid_t> processes) {
  const std::set<std::string> sockets = SocketsOn(port, PlacesOf(host));
  if (sockets.empty()) return {};
  std::set<std::string> theirs;
  for (const pid_t pid : processes) theirs.merge(HeldBy(fmt::format("/proc/{}", pid), sockets));
  return {.taken = true, .by_these = theirs == sockets};
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
