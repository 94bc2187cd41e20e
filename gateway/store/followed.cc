#include "gateway/store/followed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "gateway/net/clock.h"
#include "gateway/net/files.h"

namespace gateway::store {
namespace {

// A lock of the process, not of the open file: a child that was forked does not keep it.
struct flock WholeFile() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Writes the number twice, so that a reader recognizes one that is half written.
bool WriteNumber(int file, uint64_t number) {
  const std::string line = fmt::format("{0:020} {0:020}\n", number);
  return pwrite(file, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
}

net::Fd OpenToRead(const std::string& path) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY | O_NOFOLLOW);
  return file.ok() ? *std::move(file) : net::Fd();
}

uint64_t ReadNumber(int file) {
  char line[42] = {};
  if (pread(file, line, sizeof line, 0) != sizeof line) return 0;
  const std::string_view first(line, 20);
  const std::string_view second(line + 21, 20);
  uint64_t number = 0;
  if (first == second) std::from_chars(first.data(), first.data() + first.size(), number);
  return number;
}

}  // namespace

absl::Status Followed::Open(const std::string& path) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file.ok()) return file.status();
  struct flock lock = WholeFile();
  if (fcntl(file->get(), F_SETLK, &lock) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: is locked: another gateway runs on this state_dir; stop it, or choose another", path));
  }
  if (!WriteNumber(file->get(), 0)) return net::SystemError("write", path, errno);
  file_ = *std::move(file);
  return absl::OkStatus();
}

void Followed::Set(uint64_t number) {
  if (file_) WriteNumber(file_.get(), number);
}

int GatewayWith(const std::string& path) {
  const net::Fd file = OpenToRead(path);
  struct flock lock = WholeFile();
  return file && fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

uint64_t LastFollowed(const std::string& path) {
  const net::Fd file = OpenToRead(path);
  return file ? ReadNumber(file.get()) : 0;
}

net::Task<FollowedBy> AwaitFollowed(net::Loop& loop, std::string path, uint64_t number,
                                    conf::Duration patience) {
  const net::Fd file = OpenToRead(path);
  if (!file) co_return FollowedBy{};
  const conf::TimePoint until = net::Now() + patience;
  net::Sleep pause(loop.watchdog);
  while (true) {
    struct flock lock = WholeFile();
    if (fcntl(file.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) co_return FollowedBy{};
    if (ReadNumber(file.get()) >= number) co_return FollowedBy{FollowedBy::Answer::kInForce, lock.l_pid};
    if (net::Now() >= until) co_return FollowedBy{FollowedBy::Answer::kTimedOut, lock.l_pid};
    co_await pause.For(net::Watchdog::kTick);
  }
}

}  // namespace gateway::store
