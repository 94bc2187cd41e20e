#include "plugins/weights/copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "gateway/net/files.h"
#include "plugins/weights/growing_file.h"

namespace plugins::weights {
namespace {

// Calls `take` with each block of the file from `offset` on.
template <class Take>
absl::Status ReadBlocks(const std::string& path, uint64_t offset, Take take) {
  const absl::StatusOr<gateway::net::Fd> fd = gateway::net::OpenFile(path, O_RDONLY);
  if (!fd.ok()) return fd.status();
  std::string bytes(GrowingFile::kBlock, '\0');
  while (true) {
    const absl::StatusOr<size_t> read = gateway::net::ReadAt(fd->get(), path, offset, bytes);
    if (!read.ok()) return read.status();
    if (*read == 0) return absl::OkStatus();
    if (absl::Status taken = take(std::string_view(bytes).substr(0, *read)); !taken.ok()) return taken;
    offset += *read;
  }
}

}  // namespace

absl::StatusOr<std::string> CopyHashed(const std::string& from, const std::string& to,
                                       const DownloadHooks& hooks) {
  GrowingFile file(to);
  if (absl::Status opened = file.Open(); !opened.ok()) return opened;
  hooks.on_bytes(static_cast<int64_t>(file.size()));
  const absl::Status copied = ReadBlocks(from, file.size(), [&](std::string_view bytes) {
    if (absl::Status stopped = hooks.on_transfer(bytes.size()); !stopped.ok()) return stopped;
    hooks.on_bytes(static_cast<int64_t>(bytes.size()));
    return file.Add(bytes);
  });
  if (!copied.ok()) return copied;
  return file.Finish();
}

absl::StatusOr<std::string> HashFile(const std::string& path) {
  Hasher hasher;
  const absl::Status read = ReadBlocks(path, 0, [&hasher](std::string_view bytes) {
    hasher.Update(bytes);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return hasher.TakeHex();
}

}  // namespace plugins::weights
