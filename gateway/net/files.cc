#include "gateway/net/files.h"

#include <absl/strings/cord.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace gateway::net {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
constexpr char kNoRoom[] = "tidegate/disk-full";

absl::Status TooLarge(std::string_view path, size_t max_bytes) {
  return absl::FailedPreconditionError(
      fmt::format("cannot read {}: it is larger than {} bytes", path, max_bytes));
}

}  // namespace

absl::Status SystemError(std::string_view action, std::string_view path, int error) {
  const std::string message =
      fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error));
  absl::Status status = error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  if (error == ENOSPC || error == EDQUOT) status.SetPayload(kNoRoom, absl::Cord());
  return status;
}

bool IsDiskFull(const absl::Status& status) {
  return status.GetPayload(kNoRoom).has_value();
}

absl::StatusOr<Fd> OpenFile(const std::string& path, int flags, mode_t mode) {
  Fd file(open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!file) return SystemError("open", path, errno);
  return file;
}

absl::StatusOr<uint64_t> FileSize(int fd, std::string_view path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return SystemError("stat", path, errno);
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  // Without O_NONBLOCK, a FIFO with no writer would block here.
  const absl::StatusOr<Fd> file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!file.ok()) return file.status();
  struct stat info{};
  if (fstat(file->get(), &info) != 0) return SystemError("stat", path, errno);
  if (S_ISDIR(info.st_mode)) return SystemError("read", path, EISDIR);
  if (!S_ISREG(info.st_mode))
    return absl::FailedPreconditionError(fmt::format("cannot read {}: it is not a regular file", path));
  return ReadAll(file->get(), path, max_bytes);
}

absl::StatusOr<std::string> ReadAll(int fd, std::string_view path, size_t max_bytes) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return SystemError("stat", path, errno);
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) > max_bytes)
    return TooLarge(path, max_bytes);
  // One byte more than the file has, so that its end is seen without growing: a secret leaves no copies
  // behind.
  std::string content(std::min(static_cast<size_t>(info.st_size), max_bytes) + 1, '\0');
  for (size_t used = 0;;) {
    if (used > max_bytes) return TooLarge(path, max_bytes);
    if (used == content.size()) content.resize(std::min(2 * used + kChunkBytes, max_bytes + 1));
    const ssize_t n = read(fd, content.data() + used, content.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path, errno);
    if (n == 0) {
      content.resize(used);
      return content;
    }
    used += static_cast<size_t>(n);
  }
}

absl::StatusOr<size_t> ReadAt(int fd, std::string_view path, uint64_t offset, std::span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

absl::Status WriteAll(int fd, std::string_view path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("write", path, errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode) {
  const absl::StatusOr<Fd> file = OpenFile(path, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW, mode);
  if (!file.ok()) return file.status();
  absl::Status written = WriteAll(file->get(), path, content);
  if (written.ok() && fsync(file->get()) != 0) written = SystemError("sync", path, errno);
  if (!written.ok()) unlink(path.c_str());
  return written;
}

absl::Status RenameFile(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return SystemError("rename " + from + " to", to, errno);
  return SyncParent(to);
}

absl::Status RenameToFree(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
  const int error = errno;
  absl::Status failed = SystemError("rename " + from + " to", to, error);
  return error == EEXIST ? absl::AlreadyExistsError(failed.message()) : failed;
}

absl::Status ReplaceFile(const std::string& path, std::string_view content, mode_t mode) {
  const std::string fresh = path + ".new";
  if (absl::Status written = WriteFile(fresh, content, mode); !written.ok()) return written;
  absl::Status renamed = RenameFile(fresh, path);
  if (!renamed.ok()) unlink(fresh.c_str());
  return renamed;
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemError("remove", path, errno);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& directory) {
  const absl::StatusOr<Fd> opened = OpenFile(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) return opened.status();
  if (fsync(opened->get()) != 0) return SystemError("sync", directory, errno);
  return absl::OkStatus();
}

absl::Status SyncParent(const std::string& path) {
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

absl::Status MakeDirectories(const std::string& directory, mode_t mode) {
  const std::filesystem::path path(directory);
  if (!path.has_filename() && path.has_relative_path())
    return MakeDirectories(path.parent_path().string(), mode);  // "a/b/"
  if (mkdir(directory.c_str(), mode) == 0) return SyncParent(directory);
  if (errno == EEXIST && std::filesystem::is_directory(path)) return absl::OkStatus();
  if (errno != ENOENT || !path.has_parent_path()) return SystemError("make the directory", directory, errno);
  if (absl::Status made = MakeDirectories(path.parent_path().string(), mode); !made.ok()) return made;
  if (mkdir(directory.c_str(), mode) != 0 && errno != EEXIST)
    return SystemError("make the directory", directory, errno);
  return SyncParent(directory);
}

}  // namespace gateway::net
