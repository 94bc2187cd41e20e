#include "gateway/ledger/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "conf/text.h"

namespace gateway::ledger {

absl::Status SystemError(std::string_view what, std::string_view path, int error) {
  return absl::ErrnoToStatus(error, conf::Abseil(fmt::format("{} {}", what, path)));
}

absl::StatusOr<Fd> FileOps::Create(const std::string& path) {
  return OpenFile(path, O_CREAT | O_EXCL | O_RDWR);
}

absl::StatusOr<size_t> FileOps::WriteAt(int fd, const char* data, size_t size, uint64_t offset) {
  ssize_t n;
  do {
    n = pwrite(fd, data, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return SystemError("write", "segment", errno);
  if (n == 0) return SystemError("write", "segment", EIO);
  return static_cast<size_t>(n);
}

absl::Status FileOps::Sync(int fd) {
  if (fdatasync(fd) != 0) return SystemError("sync", "segment", errno);
  return absl::OkStatus();
}

absl::Status FileOps::Remove(const std::string& path) {
  return RemoveFile(path);
}

FileOps& FileOps::Posix() {
  static FileOps ops;
  return ops;
}

absl::StatusOr<Fd> OpenFile(const std::string& path, int flags, mode_t mode) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return SystemError("open", path, errno);
  return Fd(fd);
}

absl::StatusOr<uint64_t> FileSize(int fd, std::string_view path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return SystemError("stat", path, errno);
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  absl::StatusOr<Fd> file = OpenFile(path, O_RDONLY);
  if (!file.ok()) return file.status();
  std::string content;
  char chunk[16384];
  while (true) {
    const ssize_t n = read(file->get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path, errno);
    if (n == 0) return content;
    content.append(chunk, static_cast<size_t>(n));
    if (content.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          conf::Abseil(fmt::format("read {}: more than {} bytes", path, max_bytes)));
    }
  }
}

absl::Status ReplaceFile(const std::string& path, std::string_view content, mode_t mode) {
  const std::string fresh = path + ".new";
  {
    absl::StatusOr<Fd> file = OpenFile(fresh, O_CREAT | O_TRUNC | O_WRONLY, mode);
    if (!file.ok()) return file.status();
    for (size_t done = 0; done < content.size();) {
      const ssize_t n = write(file->get(), content.data() + done, content.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return SystemError("write", fresh, errno);
      done += static_cast<size_t>(n);
    }
    if (fdatasync(file->get()) != 0) return SystemError("sync", fresh, errno);
  }
  if (rename(fresh.c_str(), path.c_str()) != 0) return SystemError("rename to", path, errno);
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemError("remove", path, errno);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& dir) {
  absl::StatusOr<Fd> file = OpenFile(dir.empty() ? "." : dir, O_RDONLY | O_DIRECTORY);
  if (!file.ok()) return file.status();
  if (fsync(file->get()) != 0) return SystemError("sync", dir, errno);
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::create_directories(dir, error)) {
    std::filesystem::permissions(dir,
                                 std::filesystem::perms::owner_all | std::filesystem::perms::group_read |
                                     std::filesystem::perms::group_exec,
                                 error);
  }
  return error ? SystemError("create directory", dir, error.value()) : absl::OkStatus();
}

}  // namespace gateway::ledger
