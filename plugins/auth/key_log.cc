#include "plugins/auth/key_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "plugins/auth/digest.h"

namespace plugins::auth {
namespace {

constexpr std::string_view kSumMember = ",\"sum\":\"";
constexpr size_t kSumDigits = 16;
constexpr size_t kSumTail = kSumMember.size() + kSumDigits + 2;  // ,"sum":"0123456789abcdef"}
constexpr int kLockAttempts = 1000;
constexpr long kLockPauseNanos = 5'000'000;

absl::Status SystemError(std::string_view path, std::string_view what) {
  const int error = errno;
  return absl::UnavailableError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

std::string Sum(std::string_view body) {
  return ToHex(Sha256(body)).substr(0, kSumDigits);
}

// `body` is an object without its closing brace.
std::string SealLine(std::string_view object) {
  const std::string_view body = object.substr(0, object.size() - 1);
  return fmt::format("{}{}{}\"}}\n", body, kSumMember, Sum(body));
}

// The object that was sealed, or empty.
std::string OpenLine(std::string_view line) {
  if (line.size() <= kSumTail || !line.ends_with("\"}")) return {};
  const std::string_view body = line.substr(0, line.size() - kSumTail);
  const std::string_view tail = line.substr(body.size());
  if (!tail.starts_with(kSumMember) || tail.substr(kSumMember.size(), kSumDigits) != Sum(body)) return {};
  return std::string(body) + "}";
}

bool ReadAt(int fd, uint64_t offset, size_t size, std::string* out) {
  out->resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n = pread(fd, out->data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool SyncFolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = fsync(fd) == 0;
  close(fd);
  return ok;
}

class Unlock {
 public:
  explicit Unlock(int fd) : fd_(fd) {}
  ~Unlock() { flock(fd_, LOCK_UN); }
  Unlock(const Unlock&) = delete;
  Unlock& operator=(const Unlock&) = delete;

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KeyLog>> KeyLog::Open(std::string path) {
  const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  int fd = open(path.c_str(), flags | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) {
    if (!SyncFolderOf(path)) {
      absl::Status failed = SystemError(path, "sync its folder");
      close(fd);
      return failed;
    }
  } else if (errno == EEXIST) {
    fd = open(path.c_str(), flags);
  }
  if (fd < 0) return SystemError(path, "open the key log");
  struct stat opened;
  absl::Status problem;
  if (fstat(fd, &opened) != 0) {
    problem = SystemError(path, "stat the key log");
  } else if (!S_ISREG(opened.st_mode)) {
    problem = absl::FailedPreconditionError(fmt::format("{}: is not a regular file", path));
  } else if ((opened.st_mode & 077) != 0) {
    problem = absl::FailedPreconditionError(
        fmt::format("{}: mode {:o} lets others read key hashes; make it 600", path, opened.st_mode & 0777));
  }
  if (!problem.ok()) {
    close(fd);
    return problem;
  }
  return std::unique_ptr<KeyLog>(new KeyLog(std::move(path), fd, opened));
}

KeyLog::KeyLog(std::string path, int fd, struct stat opened)
    : path_(std::move(path)), fd_(fd), seen_(opened), offsets_{0} {
  seen_.st_size = 0;
}

KeyLog::~KeyLog() {
  close(fd_);
}

absl::Status KeyLog::Lock(int operation) {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (flock(fd_, operation | LOCK_NB) == 0) return absl::OkStatus();
    if (errno != EWOULDBLOCK && errno != EINTR) return SystemError(path_, "lock the key log");
    const timespec pause{0, kLockPauseNanos};
    nanosleep(&pause, nullptr);
  }
  return absl::DeadlineExceededError(
      fmt::format("{}: another process has held its lock for 5 s; is one of them stopped?", path_));
}

bool KeyLog::Changed() const {
  struct stat now;
  if (stat(path_.c_str(), &now) != 0) return true;
  return now.st_size != seen_.st_size || now.st_ino != seen_.st_ino || now.st_dev != seen_.st_dev ||
         now.st_mtim.tv_sec != seen_.st_mtim.tv_sec || now.st_mtim.tv_nsec != seen_.st_mtim.tv_nsec;
}

absl::Status KeyLog::CheckSameFile(struct stat* now) const {
  if (stat(path_.c_str(), now) != 0) return SystemError(path_, "stat the key log");
  if (now->st_ino != seen_.st_ino || now->st_dev != seen_.st_dev) {
    return absl::DataLossError(
        fmt::format("{}: was replaced by another file while in use; the keys of the first stay in force "
                    "until a restart",
                    path_));
  }
  if (static_cast<uint64_t>(now->st_size) < offsets_.back()) {
    return absl::DataLossError(fmt::format("{}: shrank from {} to {} bytes; restore it", path_,
                                           offsets_.back(), static_cast<uint64_t>(now->st_size)));
  }
  if (static_cast<uint64_t>(now->st_size) > kMaxFileBytes) {
    return absl::ResourceExhaustedError(fmt::format("{}: is larger than {} bytes", path_, kMaxFileBytes));
  }
  return absl::OkStatus();
}

absl::Status KeyLog::Damaged(std::string_view what) const {
  return absl::DataLossError(
      fmt::format("{}: event {} at byte {} {}; keys changed by it or after it are not in force. Restore the "
                  "file from a copy",
                  path_, offsets_.size(), offsets_.back(), what));
}

absl::Status KeyLog::ReadLocked(Sink sink, bool* torn) {
  *torn = false;
  struct stat now;
  if (absl::Status s = CheckSameFile(&now); !s.ok()) return s;
  const auto size = static_cast<uint64_t>(now.st_size);
  std::string tail;
  if (!ReadAt(fd_, offsets_.back(), static_cast<size_t>(size - offsets_.back()), &tail)) {
    return SystemError(path_, "read the key log");
  }
  std::string_view rest = tail;
  while (!rest.empty()) {
    const size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    const bool last = newline == std::string_view::npos || newline + 1 == rest.size();
    if (newline == std::string_view::npos || (last && line.find('\0') != std::string_view::npos)) {
      *torn = true;
      break;
    }
    const std::string object = OpenLine(line);
    if (object.empty()) return Damaged("does not match its checksum");
    absl::StatusOr<KeyEvent> event = DecodeEvent(object);
    if (!event.ok()) return Damaged(fmt::format("cannot be read: {}", std::string(event.status().message())));
    if (event->number != offsets_.size()) {
      return Damaged(fmt::format("is numbered {}: a line is missing or out of place", event->number));
    }
    if (absl::Status s = sink(*event); !s.ok()) return Damaged(std::string(s.message()));
    offsets_.push_back(offsets_.back() + line.size() + 1);
    rest.remove_prefix(newline + 1);
  }
  seen_ = now;
  return absl::OkStatus();
}

absl::Status KeyLog::Read(conf::TimePoint now, Sink sink) {
  bool torn = false;
  {
    if (absl::Status s = Lock(LOCK_SH); !s.ok()) return s;
    Unlock unlock(fd_);
    if (absl::Status s = ReadLocked(sink, &torn); !s.ok()) return s;
  }
  if (!torn) return absl::OkStatus();
  if (absl::Status s = Lock(LOCK_EX); !s.ok()) return s;
  Unlock unlock(fd_);
  if (absl::Status s = ReadLocked(sink, &torn); !s.ok() || !torn) return s;
  return MoveTornTail(now, sink);
}

absl::Status KeyLog::Append(conf::TimePoint now, Sink sink, Make make) {
  if (absl::Status s = Lock(LOCK_EX); !s.ok()) return s;
  Unlock unlock(fd_);
  bool torn = false;
  if (absl::Status s = ReadLocked(sink, &torn); !s.ok()) return s;
  if (torn) {
    if (absl::Status s = MoveTornTail(now, sink); !s.ok()) return s;
  }
  absl::StatusOr<KeyEvent> event = make();
  if (!event.ok()) return event.status();
  return WriteLine(*std::move(event), sink);
}

absl::Status KeyLog::MoveTornTail(conf::TimePoint now, Sink sink) {
  struct stat current;
  if (absl::Status s = CheckSameFile(&current); !s.ok()) return s;
  std::string tail;
  if (!ReadAt(fd_, offsets_.back(),
              static_cast<size_t>(static_cast<uint64_t>(current.st_size) - offsets_.back()), &tail)) {
    return SystemError(path_, "read the key log");
  }
  const std::string aside = fmt::format("{}.torn-{}", path_, offsets_.size());
  const int out = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out < 0) return SystemError(aside, "keep the unfinished last line");
  const bool kept = WriteAll(out, tail) && fsync(out) == 0 && SyncFolderOf(aside);
  absl::Status failed = kept ? absl::OkStatus() : SystemError(aside, "keep the unfinished last line");
  close(out);
  if (!failed.ok()) return failed;
  if (ftruncate(fd_, static_cast<off_t>(offsets_.back())) != 0 || fsync(fd_) != 0) {
    return SystemError(path_, "cut off the unfinished last line");
  }
  KeyEvent event;
  event.kind = KeyEvent::Kind::kTailMoved;
  event.at = now;
  event.reason = fmt::format("{} bytes of an unfinished event moved to {}", tail.size(),
                             std::filesystem::path(aside).filename().string());
  return WriteLine(std::move(event), sink);
}

absl::Status KeyLog::WriteLine(KeyEvent event, Sink sink) {
  if (broken_) {
    return absl::DataLossError(
        fmt::format("{}: an earlier append failed half-way; restart to recover", path_));
  }
  event.number = offsets_.size();
  const std::string object = EncodeEvent(event);
  if (const auto again = DecodeEvent(object); !again.ok()) {
    return absl::InvalidArgumentError(std::string(again.status().message()));  // else no reader could pass it
  }
  const std::string line = SealLine(object);
  if (line.size() > kMaxLineBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: the event takes {} bytes, at most {} fit a line",
                                                  path_, line.size(), kMaxLineBytes));
  }
  if (offsets_.back() + line.size() > kMaxFileBytes) {
    return absl::ResourceExhaustedError(fmt::format("{}: would grow beyond {} bytes", path_, kMaxFileBytes));
  }
  if (!WriteAll(fd_, line) || fdatasync(fd_) != 0) {
    absl::Status failed = SystemError(path_, "append to the key log");
    broken_ = ftruncate(fd_, static_cast<off_t>(offsets_.back())) != 0 || fsync(fd_) != 0;
    return failed;
  }
  bool torn = false;
  return ReadLocked(sink, &torn);
}

absl::StatusOr<std::vector<KeyEvent>> KeyLog::EventsSince(uint64_t after, size_t limit) const {
  std::vector<KeyEvent> events;
  for (uint64_t n = after; n < last_event() && events.size() < limit; ++n) {
    std::string line;
    if (!ReadAt(fd_, offsets_[n], static_cast<size_t>(offsets_[n + 1] - offsets_[n] - 1), &line)) {
      return SystemError(path_, "read the key log");
    }
    const std::string object = OpenLine(line);
    absl::StatusOr<KeyEvent> event =
        object.empty() ? absl::DataLossError("does not match its checksum") : DecodeEvent(object);
    if (!event.ok()) {
      return absl::DataLossError(
          fmt::format("{}: event {} {}", path_, n + 1, std::string(event.status().message())));
    }
    events.push_back(*std::move(event));
  }
  return events;
}

}  // namespace plugins::auth
