#include "gateway/routing/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "gateway/net/files.h"

namespace gateway::routing {

std::string LogPath(const std::string& state_dir, uint32_t n) {
  return n == 0 ? state_dir + "/routing.jsonl" : fmt::format("{}/routing.{}.jsonl", state_dir, n);
}

absl::Status LogFiles::Append(std::string_view lines, uint64_t file_bytes, uint32_t files) {
  absl::Status status = file_ ? absl::OkStatus() : Open();
  if (status.ok() && size_ > 0 && size_ + lines.size() > file_bytes) status = Rotate(files);
  if (status.ok()) status = Write(lines);
  if (!status.ok()) file_ = {};
  return status;
}

absl::Status LogFiles::Open() {
  const std::string path = LogPath(state_dir_, 0);
  auto file = net::OpenFile(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC);
  if (!file.ok()) return file.status();
  const auto size = net::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  file_ = *std::move(file);
  size_ = *size;
  char last = '\n';
  const bool read = size_ == 0 || pread(file_.get(), &last, 1, static_cast<off_t>(size_ - 1)) == 1;
  return read && last == '\n' ? absl::OkStatus() : Write("\n");
}

absl::Status LogFiles::Rotate(uint32_t files) {
  file_ = {};
  std::error_code error;
  // Also removes files beyond the count of a new configuration.
  for (uint32_t n = files; std::filesystem::remove(LogPath(state_dir_, n), error); ++n) continue;
  if (files == 1) {
    std::filesystem::remove(LogPath(state_dir_, 0), error);
  }
  for (uint32_t n = files - 1; n > 0; --n) {
    error.clear();
    std::filesystem::rename(LogPath(state_dir_, n - 1), LogPath(state_dir_, n), error);
    if (error && error != std::errc::no_such_file_or_directory)
      return net::SystemError("rename", LogPath(state_dir_, n - 1), error.value());
  }
  return Open();
}

absl::Status LogFiles::Write(std::string_view text) {
  const absl::Status written = net::WriteAll(file_.get(), LogPath(state_dir_, 0), text);
  if (written.ok()) size_ += text.size();
  return written;
}

}  // namespace gateway::routing
