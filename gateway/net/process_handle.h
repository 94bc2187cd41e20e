// ProcessHandle: one process of this machine, ours or not, by a pidfd: a number that is used again for
// another process is never taken for it. ProcessWatch: its end, on a loop.
//
// SIGCHLD has no handler and nothing waits for "any child": each child is waited for by its own pidfd. A
// process that is not our child (an earlier gateway's) tells of its end likewise, but not how it ended.
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

// Of /proc/PID/stat.
struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start_ticks =
      0;  // since the machine's boot: with the pid and the boot it names a process for good
  bool gone() const { return state == 'Z' || state == 'X'; }
};
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
std::optional<ProcessStat> ParseProcessStat(std::string_view text);
// The id of this boot of the machine; empty when it cannot be known.
std::string BootId();

struct ProcessEnd {
  std::optional<int> exit_code{};
  std::optional<int> signal{};
};

class ProcessHandle {
 public:
  ProcessHandle() = default;
  explicit ProcessHandle(Fd pidfd) : pidfd_(std::move(pidfd)) {}
  // Nothing when no process has that number, or one that began at another time.
  static std::optional<ProcessHandle> Open(pid_t pid, uint64_t start_ticks);

  explicit operator bool() const { return static_cast<bool>(pidfd_); }
  int fd() const { return pidfd_.get(); }

  bool ended() const;
  // False when it has ended, or is not ours to signal.
  bool Signal(int signal) const;
  // Likewise, with a value as sigqueue() has it.
  bool Queue(int signal, int value) const;
  // How a child of ours ended, once; it is a zombie until then. Nothing for one that runs or is not a child.
  std::optional<ProcessEnd> Reap() const;
  // Reap for a child that is about to end: blocks until it has.
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

  // False: this process had no descriptor left to wait with, and `on_end` will not be called.
  bool works() const { return core_ != nullptr; }

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace gateway::net
