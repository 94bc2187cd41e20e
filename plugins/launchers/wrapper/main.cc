// tidegate-run: the wrapper of a run. It starts the run's first process as its child, adopts what that leaves
// behind, and keeps how and when the run ended before it goes. It outlives every gateway, so a run that ends
// while none is there has still ended in a known way at a known time.
//
// The first process leads a session of its own and is killed with the wrapper. The wrapper is the subreaper
// of all that the run starts: a process of the run stays its descendant whatever session, environment or
// parent it gives itself, and the run has ended when the wrapper has no child left.
//
//   SIGTERM queued with a value   ends the run: SIGTERM to all of it, SIGKILL after that many milliseconds
//   any other signal              goes to the run's first process
//
// When the first process ends, the rest of the run is ended too, with the grace of the command line. The
// program links libc alone, allocates little and has one thread: there is one for each run. See protocol.h
// for arguments and files.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/net/child_report.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace {

using gateway::net::ChildReport;
using gateway::net::ChildStep;
using gateway::net::kChildReportFd;
namespace wrapper = plugins::launchers::wrapper;

constexpr int64_t kSecond = 1'000'000;  // times are in microseconds
constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kKillAgain = kSecond / 20;
// The file's time of change is at most a hundredth of the run's age old, within these.
constexpr int64_t kShortestBeat = kSecond;
constexpr int64_t kLongestBeat = 60 * kSecond;
constexpr int kNeverRan = 125;

int64_t Clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec / 1000;
}

// The run's times are one reading of the calendar and what has passed since, suspension included: a clock
// that is set meanwhile does not change how long the run held its devices.
int64_t Passed() {
  return Clock(CLOCK_BOOTTIME);
}

void Report(ChildStep step, int error) {
  const ChildReport report{step, error};
  (void)!write(kChildReportFd, &report, sizeof report);
}

[[noreturn]] void GiveUp(ChildStep step) {
  Report(step, errno);
  _exit(127);
}

// ---- The processes of the run: all descendants of this one.

struct Process {
  pid_t pid;
  pid_t parent;
  uint64_t start_ticks;
  bool descends;
};

bool ReadProcess(pid_t pid, Process& out) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  // "PID (NAME) STATE PPID ...": the name may hold anything; field 22 is the time of its start.
  const char* at = strrchr(text, ')');
  if (at == nullptr) return false;
  unsigned long long ticks = 0;  // NOLINT(google-runtime-int): as scanf has it
  int parent = 0;
  if (sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
             &parent, &ticks) != 2)
    return false;
  out = {.pid = pid, .parent = parent, .start_ticks = ticks, .descends = false};
  return true;
}

// Every process of the machine; `all` is the caller's to free.
size_t ReadProcesses(Process*& all) {
  size_t count = 0;
  size_t room = 0;
  all = nullptr;
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return 0;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = atoi(entry->d_name);
    if (pid <= 0) continue;
    if (count == room) {
      room = room == 0 ? 512 : 2 * room;
      auto* const larger = static_cast<Process*>(realloc(all, room * sizeof(Process)));
      if (larger == nullptr) break;
      all = larger;
    }
    if (ReadProcess(pid, all[count])) ++count;
  }
  closedir(proc);
  return count;
}

void MarkDescendants(Process* all, size_t count, pid_t root) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < count; ++i) {
      if (all[i].descends) continue;
      bool descends = all[i].parent == root;
      for (size_t j = 0; j < count && !descends; ++j)
        descends = all[j].descends && all[j].pid == all[i].parent;
      all[i].descends = descends;
      changed = changed || descends;
    }
  }
}

// Through a pidfd whose process was looked at again, so that a number that was used again hits nobody else.
void Signal(const Process& process, int signal) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (pidfd < 0) return;
  Process now{};
  if (ReadProcess(process.pid, now) && now.start_ticks == process.start_ticks)
    syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
  close(pidfd);
}

void SignalAll(int signal) {
  Process* all = nullptr;
  const size_t count = ReadProcesses(all);
  MarkDescendants(all, count, getpid());
  for (size_t i = 0; i < count; ++i) {
    if (all[i].descends) Signal(all[i], signal);
  }
  free(all);
}

// ---- The run.

class Run {
 public:
  explicit Run(char** argv) : argv_(argv), grace_(strtoll(argv[wrapper::kGrace], nullptr, 10) * 1000) {}

  void Start() {
    result_ = open(argv_[wrapper::kResult], O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (result_ < 0) GiveUp(ChildStep::kFiles);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) GiveUp(ChildStep::kSession);
    started_ = Clock(CLOCK_REALTIME);
    began_ = Passed();
    const pid_t self = getpid();
    child_ = fork();
    if (child_ < 0) GiveUp(ChildStep::kSession);
    if (child_ == 0) Become(self);
    Process process{};
    ReadProcess(child_, process);
    WriteLine(0, "{\"run\":\"%s\",\"child\":%d,\"child_ticks\":%llu,\"started\":%lld}\n", argv_[wrapper::kId],
              child_, static_cast<unsigned long long>(process.start_ticks),  // NOLINT(google-runtime-int)
              static_cast<long long>(started_));                             // NOLINT(google-runtime-int)
    close(kChildReportFd);
    fdatasync(result_);
    // Neither keeps a file system busy that the run may have been given for itself.
    (void)!chdir("/");
  }

  // Returns when nothing of the run is left.
  void Wait(const sigset_t& signals) {
    while (Reap()) {
      const int64_t now = Passed();
      if (ended_ && deadline_ == kNever) End(now + grace_);
      if (now >= deadline_) {
        Kill();
        deadline_ = now + kKillAgain;
      }
      if (now >= next_beat_) Beat(now);
      TakeSignal(signals, (deadline_ < next_beat_ ? deadline_ : next_beat_) - now);
    }
  }

  // How the first process ended, as a shell has it.
  int Conclude() {
    const long long ended = started_ + (Passed() - began_);  // NOLINT(google-runtime-int)
    RestoreFile();
    if (WIFSIGNALED(status_)) {
      WriteLine(wrapper::kBlockBytes, "{\"ended\":%lld,\"exit_code\":null,\"signal\":%d,\"killed\":%s}\n",
                ended, WTERMSIG(status_), killed_ ? "true" : "false");
    } else {
      WriteLine(wrapper::kBlockBytes, "{\"ended\":%lld,\"exit_code\":%d,\"signal\":null,\"killed\":%s}\n",
                ended, WEXITSTATUS(status_), killed_ ? "true" : "false");
    }
    fsync(result_);
    if (has_cgroup()) rmdir(argv_[wrapper::kCgroup]);
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  // In the child.
  [[noreturn]] void Become(pid_t parent) {
    if (setsid() < 0) GiveUp(ChildStep::kSession);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNeverRan);  // it was killed before
    JoinCgroup();
    unsetenv(wrapper::kRecordVariable);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(argv_[wrapper::kProgram], argv_ + wrapper::kFirstWord, environ);
    GiveUp(ChildStep::kWrapped);
  }

  bool has_cgroup() const { return argv_[wrapper::kCgroup][0] != '\0'; }

  bool WriteCgroup(const char* file, const char* text) const {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", argv_[wrapper::kCgroup], file);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool wrote = write(fd, text, strlen(text)) > 0;
    close(fd);
    return wrote;
  }

  // Without it the run still descends from the wrapper; a wrapper that is killed would leave strays unfound.
  void JoinCgroup() const {
    if (has_cgroup() && !WriteCgroup("cgroup.procs", "0"))
      fprintf(stderr, "%s: cannot join the cgroup %s: %s\n", wrapper::kName, argv_[wrapper::kCgroup],
              strerror(errno));
  }

  template <class... Values>
  void WriteLine(off_t at, const char* format, Values... values) const {
    char line[512];
    const int size = snprintf(line, sizeof line, format, values...);
    if (pwrite(result_, line, static_cast<size_t>(size), at) != size)
      fprintf(stderr, "%s: cannot write %s: %s\n", wrapper::kName, argv_[wrapper::kResult], strerror(errno));
  }

  // The file was removed under the wrapper: the launcher looks for it where it was.
  void RestoreFile() {
    struct stat info{};
    if (fstat(result_, &info) != 0 || info.st_nlink > 0) return;
    MakeFolder();
    const int fresh =
        open(argv_[wrapper::kResult], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fresh < 0) return;
    close(result_);
    result_ = fresh;
    WriteLine(0, "{\"run\":\"%s\",\"child\":%d,\"child_ticks\":0,\"started\":%lld}\n", argv_[wrapper::kId],
              child_, static_cast<long long>(started_));  // NOLINT(google-runtime-int)
  }

  void MakeFolder() const {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", argv_[wrapper::kResult]);
    char* const slash = strrchr(folder, '/');
    if (slash == nullptr) return;
    *slash = '\0';
    mkdir(folder, 0700);
  }

  // False: the run has no process any more.
  bool Reap() {
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != child_) continue;
      ended_ = true;
      status_ = status;
    }
    return pid == 0 || errno == EINTR;
  }

  void End(int64_t deadline) {
    deadline_ = deadline;
    SignalAll(SIGTERM);
    SignalAll(SIGCONT);  // one that stands still could not see the other
  }

  void Kill() {
    killed_ = true;
    if (has_cgroup()) WriteCgroup("cgroup.kill", "1");
    SignalAll(SIGKILL);
  }

  void Beat(int64_t now) {
    futimens(result_, nullptr);
    const int64_t pause = (now - began_) / 100;
    next_beat_ = now + (pause < kShortestBeat ? kShortestBeat : pause > kLongestBeat ? kLongestBeat : pause);
  }

  void TakeSignal(const sigset_t& signals, int64_t patience) {
    const timespec timeout{.tv_sec = patience > 0 ? patience / kSecond : 0,
                           .tv_nsec = patience > 0 ? patience % kSecond * 1000 : 0};
    siginfo_t info{};
    const int signal = sigtimedwait(&signals, &info, &timeout);
    if (signal <= 0 || signal == SIGCHLD) return;
    if (signal == SIGTERM && info.si_code == SI_QUEUE) {
      const int64_t deadline = Passed() + int64_t{info.si_value.sival_int} * 1000;
      if (deadline_ == kNever) {
        End(deadline);
      } else if (deadline < deadline_) {
        deadline_ = deadline;
      }
    } else if (!ended_) {
      kill(child_, signal);
    }
  }

  char** const argv_;
  const int64_t grace_;
  int result_ = -1;
  pid_t child_ = 0;
  int64_t started_ = 0;  // by the calendar
  int64_t began_ = 0;    // by Passed()
  int64_t next_beat_ = 0;
  int64_t deadline_ = kNever;  // SIGKILL then; set: the run is being ended
  bool ended_ = false;         // its first process
  bool killed_ = false;
  int status_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc <= wrapper::kFirstWord) {
    fprintf(stderr, "%s is started by tidegate, one for each process that it runs\n", argv[0]);
    return 2;
  }
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  fcntl(kChildReportFd, F_SETFD, FD_CLOEXEC);
  Run run(argv);
  run.Start();
  run.Wait(signals);
  return run.Conclude();
}
