#include "gateway/net/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "gateway/net/child_report.h"

// glibc's clone() under a name that no sanitizer intercepts: an interceptor would hold its locks until the
// child runs its program.
extern "C" int __clone(int (*fn)(void*), void* stack, int flags, void* arg, ...);  // NOLINT

namespace gateway::net {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
// The child's descriptors.
constexpr int kGoFd = 3;  // a byte lets it run, the end of the file ends it
constexpr int kReportFd = kChildReportFd;
constexpr int kUntilRunFd = 5;
constexpr int kAboveChildFds = 16;

using Step = ChildStep;
using Report = ChildReport;

// Everything that the child needs, prepared before the clone: the child must not allocate or lock.
struct Plan {
  const char* program;
  char* const* argv;
  char* const* env;
  const char* directory;
  int null;
  int output;
  int go;
  int report;
  int until_run;
  int given;
  bool gives;
  bool reports;
};

// Runs in the child, in memory that it shares with its maker, on a stack of its own. Raw system calls only:
// the C library and the sanitizers would take the child for the maker's thread.
#define TIDEGATE_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

TIDEGATE_IN_CHILD void SendReport(int fd, Step step, int value) {
  const Report report{step, value};
  (void)!syscall(SYS_write, fd, &report, sizeof report);
}

[[noreturn]] TIDEGATE_IN_CHILD void GiveUp(int fd, Step step) {
  SendReport(fd, step, errno);
  syscall(SYS_exit_group, 127);
  __builtin_unreachable();
}

TIDEGATE_IN_CHILD void DefaultSignals() {
  // The kernel's own struct: a handler of 0 is SIG_DFL.
  long nothing[8];  // NOLINT(google-runtime-int): machine words
  for (long& word : nothing) word = 0;
  for (int signal = 1; signal < 65; ++signal) syscall(SYS_rt_sigaction, signal, nothing, nullptr, 8);
  // A signal that arrived meanwhile has its default effect now.
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, nullptr, 8);
}

TIDEGATE_IN_CHILD int RunChild(void* argument) {
  const Plan& plan = *static_cast<const Plan*>(argument);
  int report = plan.report;
  if (syscall(SYS_setsid) < 0) GiveUp(report, Step::kSession);
  if (syscall(SYS_dup3, plan.null, 0, 0) < 0 || syscall(SYS_dup3, plan.output, 1, 0) < 0 ||
      syscall(SYS_dup3, plan.output, 2, 0) < 0 || syscall(SYS_dup3, plan.go, kGoFd, O_CLOEXEC) < 0 ||
      syscall(SYS_dup3, plan.report, kReportFd, O_CLOEXEC) < 0 ||
      syscall(SYS_dup3, plan.until_run, kUntilRunFd, O_CLOEXEC) < 0 ||
      syscall(SYS_dup3, plan.given, kGivenFd, plan.gives ? 0 : O_CLOEXEC) < 0)
    GiveUp(report, Step::kFiles);
  report = kReportFd;
  // Closes its copy of the other end of `go`, and those of other held children.
  if (syscall(SYS_close_range, kGivenFd + 1, ~0U, 0) < 0) GiveUp(report, Step::kFiles);
  SendReport(report, Step::kHeld, static_cast<int>(syscall(SYS_getpid)));
  char go = 0;
  long got;  // NOLINT(google-runtime-int): a system call's
  do {
    got = syscall(SYS_read, kGoFd, &go, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) syscall(SYS_exit_group, HeldChild::kNeverRan);
  if (plan.directory != nullptr && !plan.reports && syscall(SYS_chdir, plan.directory) < 0)
    GiveUp(report, Step::kDirectory);
  DefaultSignals();
  if (plan.reports) syscall(SYS_fcntl, kReportFd, F_SETFD, 0);
  syscall(SYS_execve, plan.program, plan.argv, plan.env);
  GiveUp(report, Step::kExec);
}

#undef TIDEGATE_IN_CHILD

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

absl::Status NoRoom(std::string_view what, int error) {
  return absl::UnavailableError(
      fmt::format("no process can be started: {}: {}", what, std::generic_category().message(error)));
}

// Above the numbers of the child's own descriptors, so that dup3 overwrites none that is still needed.
Fd Above(int fd) {
  return Fd(fcntl(fd, F_DUPFD_CLOEXEC, kAboveChildFds));
}

struct Pipe {
  Fd read;
  Fd write;
};

Pipe MakePipe() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const Fd low_read(ends[0]);
  const Fd low_write(ends[1]);
  return {Above(ends[0]), Above(ends[1])};
}

// The child's next report; absent when it runs its program, or has ended.
std::optional<Report> ReadReport(int fd) {
  Report report{};
  ssize_t n;
  do {
    n = read(fd, &report, sizeof report);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof report) return std::nullopt;
  return report;
}

bool IsFile(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

absl::StatusOr<std::string> FindProgram(std::string_view name, std::string_view search_path,
                                        std::string_view directory) {
  if (name.empty()) return absl::InvalidArgumentError("the command is empty");
  if (name.find('/') != std::string_view::npos) {
    // Absolute, because the program starts in `directory`.
    std::error_code error;
    const std::string path =
        std::filesystem::absolute(std::filesystem::path(directory) / std::filesystem::path(name), error);
    struct stat info{};
    if (stat(path.c_str(), &info) != 0) {
      if (errno == EACCES) return path;  // another user, as whom it may run, may go there
      return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
    }
    if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(fmt::format("{} is not a file", path));
    if ((info.st_mode & 0111) == 0)
      return absl::InvalidArgumentError(
          fmt::format("{} is not executable (mode {:o})", path, info.st_mode & 07777));
    return path;
  }
  std::string not_executable;
  for (size_t at = 0; at <= search_path.size();) {
    const size_t end = std::min(search_path.find(':', at), search_path.size());
    const std::string_view folder = search_path.substr(at, end - at);
    at = end + 1;
    if (folder.empty() || folder.front() != '/') continue;
    std::string path = fmt::format("{}/{}", folder, name);
    if (!IsFile(path)) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    if (not_executable.empty()) not_executable = std::move(path);
  }
  if (!not_executable.empty())
    return absl::InvalidArgumentError(fmt::format("{} is not executable", not_executable));
  return absl::InvalidArgumentError(fmt::format("program {} not found in PATH ({})", name, search_path));
}

struct HeldChild::Core {
  void Run() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    // Our signal handlers must not run in the child.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int made = __clone(&RunChild, static_cast<char*>(stack) + kStackBytes,
                             CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &pidfd);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (made < 0) SendReport(report.write.get(), Step::kSession, error);
    // From here on only the child has a copy of the descriptor.
    report.write.Close();
  }

  ~Core() {
    go.write.Close();
    if (thread.joinable()) thread.join();
    if (const ProcessHandle left{Fd(std::exchange(pidfd, -1))}; left) left.WaitAndReap();
    if (stack != MAP_FAILED) munmap(stack, kStackBytes);
  }

  ChildSpec spec;
  std::vector<char*> argv;
  std::vector<char*> env;
  Plan plan{};
  Fd null;
  Fd output;
  Fd until_run;
  Fd given;
  Pipe go;
  Pipe report;
  void* stack = MAP_FAILED;
  int pidfd = -1;
  pid_t pid = 0;
  std::thread thread;
};

HeldChild::HeldChild(std::unique_ptr<Core> core) : core_(std::move(core)) {}
HeldChild::~HeldChild() = default;

pid_t HeldChild::pid() const {
  return core_->pid;
}

absl::StatusOr<std::unique_ptr<HeldChild>> HeldChild::Make(const ChildSpec& spec) {
  auto core = std::make_unique<Core>();
  core->spec = spec;
  core->argv = Pointers(core->spec.argv);
  core->env = Pointers(core->spec.env);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  core->null = Above(null.get());
  core->output = Above(spec.output);
  core->until_run = Above(spec.until_run < 0 ? null.get() : spec.until_run);
  core->given = Above(spec.given < 0 ? null.get() : spec.given);
  core->go = MakePipe();
  core->report = MakePipe();
  if (!core->null || !core->output || !core->until_run || !core->given || !core->go.write ||
      !core->report.write)
    return NoRoom("descriptors", errno);
  core->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (core->stack == MAP_FAILED) return NoRoom("memory", errno);
  core->plan = {.program = core->spec.program.c_str(),
                .argv = core->argv.data(),
                .env = core->env.data(),
                .directory = core->spec.directory.empty() ? nullptr : core->spec.directory.c_str(),
                .null = core->null.get(),
                .output = core->output.get(),
                .go = core->go.read.get(),
                .report = core->report.write.get(),
                .until_run = core->until_run.get(),
                .given = core->given.get(),
                .gives = spec.given >= 0,
                .reports = spec.reports};
  core->thread = std::thread([c = core.get()] { c->Run(); });
  const std::optional<Report> first = ReadReport(core->report.read.get());
  if (!first) return NoRoom("it ended at once", ECHILD);
  if (first->step != Step::kHeld) return NoRoom("clone", first->value);
  core->pid = first->value;
  return std::unique_ptr<HeldChild>(new HeldChild(std::move(core)));
}

absl::StatusOr<ProcessHandle> HeldChild::Release() {
  (void)!write(core_->go.write.get(), "g", 1);
  core_->thread.join();
  const std::optional<Report> failed = ReadReport(core_->report.read.get());
  ProcessHandle process{Fd(std::exchange(core_->pidfd, -1))};
  if (!failed) return process;
  process.WaitAndReap();
  const std::string why = std::generic_category().message(failed->value);
  const ChildSpec& spec = core_->spec;
  if (failed->step == Step::kDirectory)
    return absl::InvalidArgumentError(fmt::format("the directory {}: {}", spec.directory, why));
  if (failed->step == Step::kUser)
    return absl::UnavailableError(fmt::format("{} cannot become another user: {}", spec.program, why));
  if (failed->value == E2BIG) {
    return absl::InvalidArgumentError(fmt::format(
        "the command and its variables are too long for the system: {}. Put long texts into a file", why));
  }
  // A fault of the wrapper, not of the command.
  if (spec.reports && failed->step != Step::kWrapped)
    return absl::UnavailableError(fmt::format("{} cannot run {}: {}", spec.program, spec.wraps, why));
  const std::string& program = spec.reports ? spec.wraps : spec.program;
  if (failed->value == ENOENT)
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}; if the file is there, the interpreter that its first line names is not", program, why));
  return absl::InvalidArgumentError(fmt::format("{} cannot be run: {}", program, why));
}

}  // namespace gateway::net
