// ProcessHandle: one process of this machine, our child or not, by a pidfd: a reused pid is never taken for
// it. ProcessWatch: waits for its end, on a loop.
//
// SIGCHLD has no handler, and no call waits for "any child": each child is waited for by its own pidfd. The
// end of a process that is not our child (an earlier gateway's) is seen, too, but not its exit status.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/net/fd.h"
#include "gateway/net/loop.h"

namespace gateway::net {

// Fields of /proc/PID/stat.
struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start_ticks = 0;  // since the machine's boot; pid, start and boot identify a process for good
  bool gone() const { return state == 'Z' || state == 'X'; }
};
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
std::optional<ProcessStat> ParseProcessStat(std::string_view text);
// The id of this boot of the machine; empty when unknown.
std::string BootId();

struct ProcessEnd {
  std::optional<int> exit_code{};
  std::optional<int> signal{};
};

class ProcessHandle {
 public:
  ProcessHandle() = default;
  explicit ProcessHandle(Fd pidfd) : pidfd_(std::move(pidfd)) {}
  // Absent when no process has that pid, or one that started at another time.
  static std::optional<ProcessHandle> Open(pid_t pid, uint64_t start_ticks);

  explicit operator bool() const { return static_cast<bool>(pidfd_); }
  int fd() const { return pidfd_.get(); }

  bool ended() const;
  // False when it has ended, or we may not signal it.
  bool Signal(int signal) const;
  // The same with a value, like sigqueue().
  bool Queue(int signal, int value) const;
  // The exit status of our child, once; it is a zombie until then. Nothing for one that runs or is not our
  // child.
  std::optional<ProcessEnd> Reap() const;
  // Reap for a child that is about to end: blocks until it has ended.
  std::optional<ProcessEnd> WaitAndReap() const;

 private:
  Fd pidfd_;
};

// Calls `on_end` once, on the loop, also for a process that has ended already; never after its destruction.
// Loop's thread.
class ProcessWatch {
 public:
  ProcessWatch(Loop& loop, const ProcessHandle& process, std::function<void()> on_end);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // False: no file descriptor is left to wait with, and `on_end` will not be called.
  bool works() const { return core_ != nullptr; }

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace gateway::net
