// The ledger's seam to the file system. What is written on the commit path goes through FileOps, so that a
// test can fill the disk or fail a sync; the rest is plain POSIX behind absl::Status. Any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/net/fd.h"

namespace gateway::ledger {

using net::Fd;

// What the ledger thread asks of the system. The defaults are the system's own.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual absl::StatusOr<Fd> Create(const std::string& path);
  // Bytes written, at least one, or the error; never more than `size`.
  virtual absl::StatusOr<size_t> WriteAt(int fd, const char* data, size_t size, uint64_t offset);
  virtual absl::Status Sync(int fd);
  virtual absl::Status Remove(const std::string& path);

  static FileOps& Posix();
};

// "WHAT PATH: strerror", with the code that fits (ENOSPC is ResourceExhausted, ENOENT NotFound, …).
absl::Status SystemError(std::string_view what, std::string_view path, int error);

absl::StatusOr<Fd> OpenFile(const std::string& path, int flags, mode_t mode = 0640);
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);
absl::StatusOr<uint64_t> FileSize(int fd, std::string_view path);

// Replaces `path` as a whole: a reader sees the old content or the new. Durable when it returns.
absl::Status ReplaceFile(const std::string& path, std::string_view content, mode_t mode = 0640);

absl::Status RemoveFile(const std::string& path);
absl::Status SyncDirectory(const std::string& dir);
// The last component may be missing, and so may its parents; mode 0750.
absl::Status MakeDirectories(const std::string& dir);

}  // namespace gateway::ledger
