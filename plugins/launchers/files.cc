#include "plugins/launchers/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace plugins::launchers {

using gateway::net::Fd;

absl::Status SystemError(std::string_view what, std::string_view path, int error) {
  const std::string message = fmt::format("{} {}: {}", what, path, std::generic_category().message(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

absl::StatusOr<Fd> OpenFile(const std::string& path, int flags) {
  Fd file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) return SystemError("cannot open", path, errno);
  return file;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  absl::StatusOr<Fd> file = OpenFile(path, O_RDONLY);
  if (!file.ok()) return file.status();
  std::string content;
  std::array<char, 16384> chunk;
  while (true) {
    const ssize_t n = read(file->get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("cannot read", path, errno);
    if (n == 0) return content;
    content.append(chunk.data(), static_cast<size_t>(n));
    if (content.size() > max_bytes)
      return absl::UnavailableError(
          fmt::format("cannot read {}: it has more than {} bytes", path, max_bytes));
  }
}

absl::Status ReplaceFile(const std::string& path, std::string_view content) {
  const std::string fresh = path + ".new";
  absl::StatusOr<Fd> file = OpenFile(fresh, O_CREAT | O_TRUNC | O_WRONLY);
  if (!file.ok()) return file.status();
  absl::Status failed;
  for (size_t done = 0; failed.ok() && done < content.size();) {
    const ssize_t n = write(file->get(), content.data() + done, content.size() - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      failed = SystemError("cannot write", fresh, errno);
    }
  }
  if (failed.ok() && fsync(file->get()) != 0) failed = SystemError("cannot sync", fresh, errno);
  if (failed.ok() && rename(fresh.c_str(), path.c_str()) != 0)
    failed = SystemError("cannot rename to", path, errno);
  if (!failed.ok()) {
    unlink(fresh.c_str());
    return failed;
  }
  return SyncDirectory(std::filesystem::path(path).parent_path());
}

absl::Status MakeDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (mkdir(path.c_str(), 0700) == 0) return SyncDirectory(parent);
  if (errno == EEXIST && std::filesystem::is_directory(path)) return absl::OkStatus();
  if (errno != ENOENT || parent.empty()) return SystemError("cannot make the directory", path, errno);
  if (absl::Status made = MakeDirectory(parent); !made.ok()) return made;
  if (mkdir(path.c_str(), 0700) != 0) return SystemError("cannot make the directory", path, errno);
  return SyncDirectory(parent);
}

absl::Status SyncDirectory(const std::string& path) {
  absl::StatusOr<Fd> directory = OpenFile(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
  if (!directory.ok()) return directory.status();
  if (fsync(directory->get()) != 0) return SystemError("cannot sync", path, errno);
  return absl::OkStatus();
}

}  // namespace plugins::launchers
