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
// When the first process ends, the rest of the run is ended too, with the grace of the command line. What the
// run prints goes through the wrapper, which keeps no more of it than it was told to.
//
// Where the run has a user of its own, the wrapper is the gateway's user, to whom the run can do nothing, and
// keeps one right: to signal the run. The program links libc alone, allocates little and has one thread:
// there is one for each run. See protocol.h for arguments and files.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/net/child_report.h"
#include "gateway/net/standard_descriptors.h"
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
constexpr size_t kMaxGroups = 64;
constexpr size_t kChunk = 65536;    // of output
constexpr uint64_t kFirst = 65536;  // bytes of output that are kept also where the disk is short of room

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

// Signals through a pidfd whose process was checked again, so that a reused number hits no other process.
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

// ---- Who it is.

struct Identity {
  bool set = false;
  uid_t uid = 0;
  gid_t gid = 0;
  size_t groups = 0;
  gid_t group[kMaxGroups]{};
};

// "UID:GID[,GROUP...]"; empty: no other user.
Identity ReadIdentity(const char* text) {
  Identity out;
  if (*text == '\0') return out;
  out.set = true;
  char* end = nullptr;
  out.uid = static_cast<uid_t>(strtoul(text, &end, 10));
  if (*end == ':') out.gid = static_cast<gid_t>(strtoul(end + 1, &end, 10));
  while (*end == ',' && out.groups < kMaxGroups)
    out.group[out.groups++] = static_cast<gid_t>(strtoul(end + 1, &end, 10));
  return out;
}

bool KeepRights(uint32_t rights) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2]{};
  data[0].effective = data[0].permitted = rights;
  return syscall(SYS_capset, &header, data) == 0;
}

constexpr uint32_t Right(int capability) {
  return uint32_t{1} << capability;
}
constexpr uint32_t kToSignal = Right(CAP_KILL);
constexpr uint32_t kToBecome = kToSignal | Right(CAP_SETUID) | Right(CAP_SETGID);

bool Become(const Identity& who) {
  return setgroups(who.groups, who.group) == 0 && setresgid(who.gid, who.gid, who.gid) == 0 &&
         setresuid(who.uid, who.uid, who.uid) == 0;
}

// ---- What it prints.

// The run's output, read from a pipe and appended to a file that is put aside when it is full.
class Log {
 public:
  // `bounds`: "LIMIT:FLOOR".
  Log(const char* path, const char* bounds) : path_(path) {
    char* end = nullptr;
    limit_ = strtoull(bounds, &end, 10);
    floor_ = *end == ':' ? strtoull(end + 1, nullptr, 10) : 0;
  }

  // The file is the wrapper's own output.
  bool Open() {
    struct stat info{};
    if (fstat(STDOUT_FILENO, &info) == 0) size_ = static_cast<uint64_t>(info.st_size);
    return pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) == 0;
  }
  int from() const { return pipe_[0]; }
  // In the child: output and errors.
  bool Attach() const {
    const int flags = fcntl(pipe_[1], F_GETFL);
    return fcntl(pipe_[1], F_SETFL, flags & ~O_NONBLOCK) == 0 && dup2(pipe_[1], STDOUT_FILENO) >= 0 &&
           dup2(pipe_[1], STDERR_FILENO) >= 0;
  }
  void CloseWriter() {
    close(pipe_[1]);
    pipe_[1] = -1;
  }

  // Takes the available output. False: no process can write any more.
  bool Pump() {
    static char chunk[kChunk];
    for (int i = 0; i < 16; ++i) {  // so that a flood does not keep the wrapper from its signals
      const ssize_t n = read(pipe_[0], chunk, sizeof chunk);
      if (n > 0) {
        Append(chunk, static_cast<size_t>(n));
      } else {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
      }
    }
    return true;
  }
  void Drain() {
    pollfd readable{.fd = pipe_[0], .events = POLLIN, .revents = 0};
    // Takes what is left in the pipe, without waiting for other writers; a pipe holds at most a megabyte.
    for (int i = 0; i < 16 && poll(&readable, 1, 0) > 0 && (readable.revents & POLLIN) != 0; ++i) {
      if (!Pump()) break;
    }
    TellLost();
  }

 private:
  void Append(const char* bytes, size_t size) {
    if (!HasRoom()) {
      lost_ += size;
      return;
    }
    if (!TellLost()) {
      lost_ += size;
      return;
    }
    if (!Write(bytes, size)) lost_ += size;
  }

  // False: not even for that is there room.
  bool TellLost() {
    if (lost_ == 0) return true;
    char line[128];
    const int length =
        snprintf(line, sizeof line, "\n[tidegate-run: %llu bytes of output were lost: no room]\n",
                 static_cast<unsigned long long>(lost_));  // NOLINT(google-runtime-int)
    if (!Write(line, static_cast<size_t>(length))) return false;
    lost_ = 0;
    return true;
  }

  // The disk belongs to others, too: the older part goes before output is lost.
  bool HasRoom() const {
    if (floor_ == 0 || size_ < kFirst || DiskHasRoom()) return true;
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.1", path_);
    return unlink(aside) == 0 && DiskHasRoom();
  }
  bool DiskHasRoom() const {
    struct statvfs disk{};
    return fstatvfs(STDOUT_FILENO, &disk) != 0 || uint64_t{disk.f_bavail} * uint64_t{disk.f_frsize} >= floor_;
  }

  // The file is never over its limit, and the next one begins with a line.
  bool Write(const char* bytes, size_t size) {
    if (size_ + size > limit_ && size_ > 0) {
      const size_t room = limit_ > size_ ? limit_ - size_ : 0;
      const void* const line = memrchr(bytes, '\n', room);
      const size_t head =
          line == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(line) + 1 - bytes);
      if (head > 0 && !WriteAll(bytes, head)) return false;
      bytes += head;
      size -= head;
      PutAside();
    }
    if (size > limit_) {
      bytes += size - limit_;
      size = limit_;
    }
    return WriteAll(bytes, size);
  }

  bool WriteAll(const char* bytes, size_t size) {
    const ssize_t wrote = size == 0 ? 0 : write(STDOUT_FILENO, bytes, size);
    if (wrote > 0) size_ += static_cast<uint64_t>(wrote);
    return wrote == static_cast<ssize_t>(size);
  }

  void PutAside() {
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.1", path_);
    if (rename(path_, aside) != 0 && errno != ENOENT) return Empty();
    const int fresh = open(path_, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fresh < 0) return Empty();
    dup2(fresh, STDOUT_FILENO);
    dup2(fresh, STDERR_FILENO);
    close(fresh);
    size_ = 0;
  }
  // There is no room for another file.
  void Empty() {
    if (ftruncate(STDOUT_FILENO, 0) == 0) size_ = 0;
  }

  const char* const path_;
  uint64_t limit_ = 0;
  uint64_t floor_ = 0;
  int pipe_[2]{-1, -1};
  uint64_t size_ = 0;
  uint64_t lost_ = 0;
};

// ---- The run.

class Run {
 public:
  explicit Run(char** argv)
      : argv_(argv),
        grace_(strtoll(argv[wrapper::kGrace], nullptr, 10) * 1000),
        owner_(ReadIdentity(argv[wrapper::kOwner])),
        user_(ReadIdentity(argv[wrapper::kUser])),
        log_(argv[wrapper::kLog], argv[wrapper::kLogBytes]) {}

  void Start() {
    ReadEnvironment();
    // Both are opened while the process has the right to, and used after it has given the right up.
    if (has_cgroup()) {
      cgroup_procs_ = OpenCgroup("cgroup.procs");
      cgroup_kill_ = OpenCgroup("cgroup.kill");
    }
    BecomeOwner();
    result_ = open(argv_[wrapper::kResult], O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (result_ < 0 || !log_.Open()) GiveUp(ChildStep::kFiles);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) GiveUp(ChildStep::kSession);
    started_ = Clock(CLOCK_REALTIME);
    began_ = Passed();
    const pid_t self = getpid();
    child_ = fork();
    if (child_ < 0) GiveUp(ChildStep::kSession);
    if (child_ == 0) BecomeRun(self);
    if (user_.set && !KeepRights(kToSignal)) GiveUp(ChildStep::kUser);
    Process process{};
    ReadProcess(child_, process);
    WriteLine(0, "{\"run\":\"%s\",\"child\":%d,\"child_ticks\":%llu,\"started\":%lld}\n", argv_[wrapper::kId],
              child_, static_cast<unsigned long long>(process.start_ticks),  // NOLINT(google-runtime-int)
              static_cast<long long>(started_));                             // NOLINT(google-runtime-int)
    log_.CloseWriter();
    explicit_bzero(environment_, environment_size_);
    free(environment_);
    free(variables_);
    close(kChildReportFd);
    fdatasync(result_);
    // It keeps no file system busy that the run may have been given for itself.
    (void)!chdir("/");
  }

  // Returns when nothing of the run is left.
  void Wait(const sigset_t& signals) {
    pollfd waits[] = {
        {.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN, .revents = 0},
        {.fd = log_.from(), .events = POLLIN, .revents = 0}};
    while (Reap()) {
      const int64_t now = Passed();
      if (ended_ && deadline_ == kNever) End(now + grace_);
      if (now >= deadline_) {
        Kill();
        deadline_ = now + kKillAgain;
      }
      if (now >= next_beat_) Beat(now);
      const int64_t patience = (deadline_ < next_beat_ ? deadline_ : next_beat_) - now;
      poll(waits, 2, patience > 0 ? static_cast<int>(patience / 1000 + 1) : 0);
      TakeSignals(waits[0].fd);
      if (waits[1].fd >= 0 && waits[1].revents != 0 && !log_.Pump()) waits[1].fd = -1;
    }
    log_.Drain();
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
  void ReadEnvironment() {
    struct stat info{};
    if (fstat(wrapper::kEnvironmentFd, &info) != 0) GiveUp(ChildStep::kFiles);
    environment_size_ = static_cast<size_t>(info.st_size);
    environment_ = static_cast<char*>(malloc(environment_size_ + 1));
    if (environment_ == nullptr ||
        pread(wrapper::kEnvironmentFd, environment_, environment_size_, 0) != info.st_size)
      GiveUp(ChildStep::kFiles);
    close(wrapper::kEnvironmentFd);
    size_t count = 0;
    for (size_t i = 0; i < environment_size_; ++i) count += environment_[i] == '\0';
    variables_ = static_cast<char**>(calloc(count + 1, sizeof(char*)));
    if (variables_ == nullptr) GiveUp(ChildStep::kFiles);
    char* next = environment_;
    for (size_t i = 0; i < count; ++i, next += strlen(next) + 1) variables_[i] = next;
  }

  // From here on it has the owner's rights to files, and may still become the run's user.
  void BecomeOwner() {
    if (!user_.set) return;
    prctl(PR_SET_KEEPCAPS, 1);
    if (!Become(owner_) || !KeepRights(kToBecome)) GiveUp(ChildStep::kUser);
    prctl(PR_SET_DUMPABLE, 0);
  }

  // In the child.
  [[noreturn]] void BecomeRun(pid_t parent) {
    if (setsid() < 0) GiveUp(ChildStep::kSession);
    JoinCgroup();
    if (!log_.Attach()) GiveUp(ChildStep::kFiles);
    SetLimits();
    if (user_.set && (!Become(user_) || !KeepRights(0))) GiveUp(ChildStep::kUser);
    if (user_.set && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) GiveUp(ChildStep::kUser);
    prctl(PR_SET_PDEATHSIG, SIGKILL);           // another user would have forgotten it
    if (getppid() != parent) _exit(kNeverRan);  // it was killed before
    if (argv_[wrapper::kDirectory][0] != '\0' && chdir(argv_[wrapper::kDirectory]) != 0)
      GiveUp(ChildStep::kDirectory);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(argv_[wrapper::kProgram], argv_ + wrapper::kFirstWord, variables_);
    if (errno == EACCES) RunNextInPath();
    GiveUp(ChildStep::kWrapped);
  }

  // The gateway found the program where the run's user may not go. As a shell does, it looks further along the
  // run's PATH. Returns with the first error, where no folder has one that this user may run.
  void RunNextInPath() const {
    if (strchr(argv_[wrapper::kFirstWord], '/') != nullptr) return;
    environ = variables_;
    execvp(argv_[wrapper::kFirstWord], argv_ + wrapper::kFirstWord);
    errno = EACCES;
  }

  // "PROCESSES:FILES:FILE_BYTES:OOM_SCORE". A limit that the system refuses is above its own.
  void SetLimits() const {
    constexpr int kKinds[] = {RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_FSIZE};
    const char* text = argv_[wrapper::kLimits];
    for (const int kind : kKinds) {
      if (*text != ':' && *text != '\0') {
        char* end = nullptr;
        const rlim_t limit = strtoull(text, &end, 10);
        text = end;
        rlimit now{};
        getrlimit(static_cast<__rlimit_resource>(kind), &now);
        if (limit < now.rlim_max) now.rlim_max = limit;
        if (now.rlim_cur > now.rlim_max || kind == RLIMIT_NOFILE) now.rlim_cur = now.rlim_max;
        setrlimit(static_cast<__rlimit_resource>(kind), &now);
      }
      if (*text == ':') ++text;
    }
    if (*text == '\0') return;
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!write(fd, text, strlen(text));
    close(fd);
  }

  bool has_cgroup() const { return argv_[wrapper::kCgroup][0] != '\0'; }

  int OpenCgroup(const char* file) const {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", argv_[wrapper::kCgroup], file);
    return open(path, O_WRONLY | O_CLOEXEC);
  }

  // Without it the run still descends from the wrapper; a wrapper that is killed would leave strays unfound.
  void JoinCgroup() const {
    if (has_cgroup() && write(cgroup_procs_, "0", 1) != 1)
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
    if (cgroup_kill_ >= 0) (void)!write(cgroup_kill_, "1", 1);
    SignalAll(SIGKILL);
  }

  void Beat(int64_t now) {
    futimens(result_, nullptr);
    const int64_t pause = (now - began_) / 100;
    next_beat_ = now + (pause < kShortestBeat ? kShortestBeat : pause > kLongestBeat ? kLongestBeat : pause);
  }

  void TakeSignals(int fd) {
    signalfd_siginfo info{};
    while (read(fd, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      if (signal == SIGTERM && info.ssi_code == SI_QUEUE) {
        const int64_t deadline = Passed() + int64_t{info.ssi_int} * 1000;
        if (deadline_ == kNever) {
          End(deadline);
        } else if (deadline < deadline_) {
          deadline_ = deadline;
        }
      } else if (!ended_) {
        kill(child_, signal);
      }
    }
  }

  char** const argv_;
  const int64_t grace_;
  const Identity owner_;
  const Identity user_;
  Log log_;
  char* environment_ = nullptr;
  size_t environment_size_ = 0;
  char** variables_ = nullptr;
  int cgroup_procs_ = -1;
  int cgroup_kill_ = -1;
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
  gateway::net::OpenStandardDescriptors();
  if (argc <= wrapper::kFirstWord) {
    fprintf(stderr, "%s is started by tidegate, one for each process that it runs\n", argv[0]);
    return 2;
  }
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  fcntl(kChildReportFd, F_SETFD, FD_CLOEXEC);
  fcntl(wrapper::kEnvironmentFd, F_SETFD, FD_CLOEXEC);
  Run run(argv);
  run.Start();
  run.Wait(signals);
  _exit(run.Conclude());  // nothing of a runtime library's has a say in how it ends
}
