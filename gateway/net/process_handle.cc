#include "gateway/net/process_handle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cerrno>
#include <charconv>
#include <utility>

// Debian 12's <sys/pidfd.h> cannot be used from C++: its functions are declared without their C linkage.

namespace gateway::net {
namespace {

// The first bytes of a small file of /proc; empty when it cannot be read.
std::string ReadStart(const char* path) {
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> bytes;
  const ssize_t n = file ? read(file.get(), bytes.data(), bytes.size()) : -1;
  return n > 0 ? std::string(bytes.data(), static_cast<size_t>(n)) : std::string();
}

// The next word as a number; false when it is not a number.
template <class T>
bool TakeNumber(std::string_view& text, T& out) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

std::optional<ProcessEnd> TakeEnd(int pidfd, int flags) {
  siginfo_t info{};
  int failed;
  do {
    failed = waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | flags);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 || info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ProcessEnd{.exit_code = info.si_status};
  return ProcessEnd{.signal = info.si_status};
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  // "PID (NAME) STATE PPID …": the name may hold anything, brackets too.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return std::nullopt;
  text.remove_prefix(name_end + 2);
  ProcessStat stat;
  stat.state = text.front();
  text.remove_prefix(1);
  if (!TakeNumber(text, stat.parent) || !TakeNumber(text, stat.group) || !TakeNumber(text, stat.session))
    return std::nullopt;
  constexpr int kBetweenSessionAndStart = 15;  // fields 7 to 21
  for (int i = 0; i < kBetweenSessionAndStart; ++i) {
    if (int64_t ignored = 0; !TakeNumber(text, ignored)) return std::nullopt;
  }
  if (!TakeNumber(text, stat.start_ticks)) return std::nullopt;
  return stat;
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  return ParseProcessStat(ReadStart(fmt::format("/proc/{}/stat", pid).c_str()));
}

std::string BootId() {
  std::string id = ReadStart("/proc/sys/kernel/random/boot_id");
  while (id.ends_with('\n')) id.pop_back();
  return id;
}

std::optional<ProcessHandle> ProcessHandle::Open(pid_t pid, uint64_t start_ticks) {
  if (pid <= 0) return std::nullopt;
  ProcessHandle handle(Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
  if (!handle) return std::nullopt;
  // Read after the pidfd is open: if the number belongs to the right process now, so does the pidfd.
  const std::optional<ProcessStat> stat = ReadProcessStat(pid);
  if (!stat || stat->start_ticks != start_ticks) return std::nullopt;
  return handle;
}

bool ProcessHandle::ended() const {
  pollfd readable{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) > 0;
}

bool ProcessHandle::Signal(int signal) const {
  return syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0;
}

bool ProcessHandle::Queue(int signal, int value) const {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = value;
  return syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, &info, 0) == 0;
}

std::optional<ProcessEnd> ProcessHandle::Reap() const {
  return TakeEnd(pidfd_.get(), WNOHANG);
}

std::optional<ProcessEnd> ProcessHandle::WaitAndReap() const {
  return TakeEnd(pidfd_.get(), 0);
}

struct ProcessWatch::Core : std::enable_shared_from_this<ProcessWatch::Core> {
  Core(Loop& loop, std::function<void()> end) : descriptor(loop.io), on_end(std::move(end)) {}

  void Wait() {
    descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                          [self = shared_from_this()](ErrorCode error) {
                            if (error || !self->on_end) return;
                            std::exchange(self->on_end, nullptr)();
                          });
  }

  asio::posix::basic_stream_descriptor<IoContext::executor_type> descriptor;
  std::function<void()> on_end;
};

ProcessWatch::ProcessWatch(Loop& loop, const ProcessHandle& process, std::function<void()> on_end)
    : core_(std::make_shared<Core>(loop, std::move(on_end))) {
  Fd own(fcntl(process.fd(), F_DUPFD_CLOEXEC, 0));
  ErrorCode error;
  if (own) core_->descriptor.assign(own.get(), error);
  if (!own || error) {
    core_.reset();
    return;
  }
  own.Release();  // the descriptor closes it
  core_->Wait();
}

ProcessWatch::~ProcessWatch() {
  if (!core_) return;
  core_->on_end = nullptr;
  ErrorCode ignored;
  core_->descriptor.close(ignored);
}

}  // namespace gateway::net
