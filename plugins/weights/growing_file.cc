#include "plugins/weights/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace plugins::weights {

using gateway::net::SystemError;

absl::Status GrowingFile::Open() {
  absl::StatusOr<gateway::net::Fd> fd = gateway::net::OpenFile(path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0664);
  if (!fd.ok()) return fd.status();
  fd_ = *std::move(fd);
  block_.reserve(kBlock);
  std::string bytes(kBlock, '\0');
  while (true) {
    const absl::StatusOr<size_t> read = gateway::net::ReadAt(fd_.get(), path_, size_, bytes);
    if (!read.ok()) return read.status();
    if (*read == 0) return absl::OkStatus();
    hasher_.Update(std::string_view(bytes).substr(0, *read));
    size_ += *read;
  }
}

absl::Status GrowingFile::Add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t some = std::min(bytes.size(), kBlock - block_.size());
    block_.append(bytes.substr(0, some));
    bytes.remove_prefix(some);
    if (block_.size() < kBlock) continue;
    if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  }
  return absl::OkStatus();
}

absl::Status GrowingFile::Flush() {
  size_t done = 0;
  while (done < block_.size()) {
    const ssize_t wrote =
        pwrite(fd_.get(), block_.data() + done, block_.size() - done, static_cast<off_t>(size_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      const absl::Status failed = SystemError("write", path_, error);
      const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
      return full ? absl::ResourceExhaustedError(failed.message()) : failed;
    }
    done += static_cast<size_t>(wrote);
  }
  hasher_.Update(block_);
  size_ += block_.size();
  block_.clear();
  return absl::OkStatus();
}

absl::Status GrowingFile::Restart() {
  block_.clear();
  size_ = 0;
  hasher_ = Hasher();
  return ftruncate(fd_.get(), 0) == 0 ? absl::OkStatus() : SystemError("empty", path_, errno);
}

absl::StatusOr<std::string> GrowingFile::Finish() {
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  if (fdatasync(fd_.get()) != 0) return SystemError("sync", path_, errno);
  return hasher_.TakeHex();
}

}  // namespace plugins::weights
