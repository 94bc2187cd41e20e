// Runs a piece of work in a child process once for each of its system calls, and kills the child with SIGKILL
// just before that call: the state after a crash at any point.
#pragma once

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>

namespace tests {

class KillAtSyscall {
 public:
  struct Options {
    std::function<void()> prepare;                   // before each run, in this process
    std::function<void(int acknowledgements)> work;  // in the child; writes its acknowledgements to the pipe
    std::function<void(const std::string& acknowledged)> check;  // after each run, with all that was written
    int most = 20'000;  // system calls; a run with more fails the test
  };

  // False: this system does not allow a process to trace its child.
  static bool Run(const Options& options) {
    for (int at = 1; at <= options.most; ++at) {
      SCOPED_TRACE("killed before system call " + std::to_string(at));
      options.prepare();
      const Result result = RunOnce(options, at);
      if (result.refused) return false;
      options.check(result.acknowledged);
      if (result.ended) return true;
      if (testing::Test::HasFailure()) return true;
    }
    ADD_FAILURE() << "the work makes more than " << options.most << " system calls";
    return true;
  }

 private:
  struct Result {
    bool refused = false;
    bool ended = false;  // without a kill
    std::string acknowledged;
  };

  static Result RunOnce(const Options& options, int at) {
    Result result;
    int ends[2];
    if (pipe(ends) != 0) {
      result.refused = true;
      return result;
    }
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
      raise(SIGSTOP);
      options.work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
      result.refused = true;
    } else {
      ptrace(PTRACE_SETOPTIONS, child, nullptr,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
      ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
      result.ended = Follow(child, at);
    }
    char buffer[4096];
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) != 0;) {
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      result.acknowledged.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    return result;
  }

  // True: the child ended before it had made that many calls. The calls of all its threads count.
  static bool Follow(pid_t child, int at) {
    int stops = 0;
    bool killed = false;
    while (true) {
      int status = 0;
      const pid_t thread = waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return !killed;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread != child) continue;
        if (!killed)
          EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the work failed: " << status;
        return !killed;
      }
      if (killed) continue;
      int signal = WSTOPSIG(status);
      if (signal == (SIGTRAP | 0x80)) {
        // A call stops twice, before and after it.
        if (++stops == 2 * at - 1) {
          killed = true;
          kill(child, SIGKILL);
          continue;
        }
        signal = 0;
      } else if (signal == SIGTRAP || signal == SIGSTOP) {
        signal = 0;
      }
      ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
    }
  }
};

}  // namespace tests
