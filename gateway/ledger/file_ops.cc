#include "gateway/ledger/file_ops.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "gateway/net/files.h"

namespace gateway::ledger {

absl::StatusOr<net::Fd> FileOps::Create(const std::string& path) {
  return net::OpenFile(path, O_CREAT | O_EXCL | O_RDWR);
}

absl::StatusOr<size_t> FileOps::WriteAt(int fd, const char* data, size_t size, uint64_t offset) {
  ssize_t n;
  do {
    n = pwrite(fd, data, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return net::SystemError("write", "segment", n < 0 ? errno : EIO);
  return static_cast<size_t>(n);
}

absl::Status FileOps::Sync(int fd) {
  if (fdatasync(fd) != 0) return net::SystemError("sync", "segment", errno);
  return absl::OkStatus();
}

absl::Status FileOps::Reserve(int fd, uint64_t offset, uint64_t bytes) {
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
    return net::SystemError("reserve room for", "segment", errno);
  return absl::OkStatus();
}

absl::Status FileOps::Remove(const std::string& path) {
  return net::RemoveFile(path);
}

FileOps& FileOps::Posix() {
  static FileOps ops;
  return ops;
}

}  // namespace gateway::ledger
