#include "gateway/cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "conf/text.h"

namespace gateway::cli {
namespace {

std::string Why(int error) {
  return std::generic_category().message(error);
}

absl::Status Failed(const std::string& path, std::string_view why) {
  return absl::UnavailableError(conf::Abseil(fmt::format("{}: {}", path, why)));
}

// Where a link leads to; what does not exist stands for itself.
std::string Target(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

std::string Beside(const std::string& target) {
  return fmt::format("{}.part-{}", target, getpid());
}

bool IsPlain(const struct stat& info) {
  return S_ISREG(info.st_mode);
}

// All of it; 0 or the error.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(conf::Abseil(Why(errno)));
  std::string text;
  ssize_t n = 0;
  int error = 0;
  do {
    constexpr size_t kChunk = 1 << 20;
    const size_t had = text.size();
    text.resize(had + kChunk);
    n = read(fd, text.data() + had, kChunk);
    error = n < 0 ? errno : 0;
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  } while (text.size() <= most && (n > 0 || error == EINTR));
  close(fd);
  if (error != 0) return absl::UnavailableError(conf::Abseil(Why(error)));
  if (text.size() > most) {
    return absl::ResourceExhaustedError(conf::Abseil(fmt::format("is longer than {} bytes", most)));
  }
  return text;
}

std::string WhyNotWritable(const std::string& path) {
  const std::string target = Target(path);
  struct stat info{};
  if (stat(target.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Why(EISDIR);
    if (access(target.c_str(), W_OK) != 0) return Why(errno);
    if (!IsPlain(info)) return {};
  }
  const std::string probe = Beside(target);
  const int fd = open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return Why(errno);
  close(fd);
  unlink(probe.c_str());
  return {};
}

absl::Status WriteWhole(const std::string& path, std::string_view text) {
  const std::string target = Target(path);
  struct stat info{};
  const bool exists = stat(target.c_str(), &info) == 0;
  const bool direct = exists && !IsPlain(info);
  const std::string written = direct ? target : Beside(target);
  const int fd = open(written.c_str(), (direct ? 0 : O_CREAT | O_TRUNC) | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return Failed(path, Why(errno));
  int error = WriteAll(fd, text);
  if (error == 0 && !direct && fsync(fd) != 0) error = errno;
  if (error == 0 && !direct && exists && fchmod(fd, info.st_mode & 07777) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && !direct && rename(written.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (!direct) unlink(written.c_str());
  return Failed(path, Why(error));
}

absl::Status Print(std::string_view text) {
  errno = 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return absl::OkStatus();
  return Failed("standard output", Why(errno));
}

}  // namespace gateway::cli
