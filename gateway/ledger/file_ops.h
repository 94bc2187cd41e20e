// FileOps: the file system calls on the commit path. A test replaces it to fill the disk, to fail a sync, or to
// kill the process between two calls. Any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "gateway/net/fd.h"

namespace gateway::ledger {

// The defaults call the system.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual absl::StatusOr<net::Fd> Create(const std::string& path);
  // Returns the number of bytes written, from 1 to `size`.
  virtual absl::StatusOr<size_t> WriteAt(int fd, const char* data, size_t size, uint64_t offset);
  virtual absl::Status Sync(int fd);
  // Reserves disk blocks for `bytes` from `offset` on, without changing the file's size.
  virtual absl::Status Reserve(int fd, uint64_t offset, uint64_t bytes);
  virtual absl::Status Remove(const std::string& path);

  static FileOps& Posix();
};

}  // namespace gateway::ledger
