#include "plugins/sinks/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"

namespace plugins::sinks {
namespace {

constexpr size_t kSeqDigits = 20;

}  // namespace

absl::Status FileSink::Error(const char* action) const {
  return gateway::net::SystemError(action, options_.path, errno);
}

gateway::net::Task<absl::Status> FileSink::Deliver(std::span<const Record> batch, conf::TimePoint) {
  co_return co_await gateway::net::OffLoop(loop_, [this, batch] { return Append(batch); });
}

absl::Status FileSink::Append(std::span<const Record> batch) {
  if (batch.empty()) return absl::OkStatus();
  std::string bytes;
  for (const Record& record : batch) bytes.append(record.line).push_back('\n');
  if (file_ && Moved()) file_.Close();
  if (!file_) {
    if (absl::Status opened = Open(); !opened.ok()) return opened;
  }
  if (size_ > 0 && size_ + bytes.size() > options_.max_bytes) {
    if (absl::Status rotated = Rotate(batch.front().seq - 1); !rotated.ok()) return rotated;
  }
  absl::Status written = gateway::net::WriteAll(file_.get(), options_.path, bytes);
  if (written.ok() && fdatasync(file_.get()) != 0) written = Error("sync");
  if (!written.ok()) {
    // A half-written batch is cut off; where that fails, Open cuts it.
    if (ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_.Close();
    return written;
  }
  size_ += bytes.size();
  return absl::OkStatus();
}

absl::Status FileSink::Open() {
  absl::StatusOr<gateway::net::Fd> file =
      gateway::net::OpenFile(options_.path, O_RDWR | O_CREAT | O_APPEND, options_.mode);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  struct stat info;
  absl::Status status;
  if (fstat(file_.get(), &info) != 0) {
    status = Error("stat");
  } else if (!S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(fmt::format("{} is not a regular file", options_.path));
  } else {
    size_ = static_cast<uint64_t>(info.st_size);
    status = CutTornLine();
  }
  if (status.ok()) status = gateway::net::SyncParent(options_.path);
  if (!status.ok()) file_.Close();
  return status;
}

absl::Status FileSink::CutTornLine() {
  std::array<char, 4096> block;
  uint64_t end = size_;  // no line ends behind it
  while (end > 0) {
    const size_t n = std::min<uint64_t>(block.size(), end);
    const absl::StatusOr<size_t> read =
        gateway::net::ReadAt(file_.get(), options_.path, end - n, std::span(block).first(n));
    if (!read.ok()) return read.status();
    if (*read < n) return gateway::net::SystemError("read", options_.path, EIO);
    const size_t line_end = std::string_view(block.data(), n).rfind('\n');
    if (line_end != std::string_view::npos) {
      end = end - n + line_end + 1;
      break;
    }
    end -= n;
  }
  if (end == size_) return absl::OkStatus();
  if (ftruncate(file_.get(), static_cast<off_t>(end)) != 0) return Error("truncate");
  size_ = end;
  return absl::OkStatus();
}

absl::Status FileSink::Rotate(uint64_t last_seq) {
  // A name may be taken when a crash came between the rotation and the cursor: then it gets a suffix.
  const std::string base = fmt::format("{}.{:0{}}", options_.path, last_seq, kSeqDigits);
  std::string target = base;
  absl::Status moved = gateway::net::RenameToFree(options_.path, target);
  for (int i = 1; absl::IsAlreadyExists(moved); ++i) {
    target = fmt::format("{}-{}", base, i);
    moved = gateway::net::RenameToFree(options_.path, target);
  }
  if (!moved.ok()) return moved;
  file_.Close();
  RemoveOldest();
  return Open();
}

void FileSink::RemoveOldest() const {
  if (options_.keep == 0) return;
  const std::filesystem::path path(options_.path);
  const std::string stem = path.filename().string() + ".";
  std::vector<std::string> rotated;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           path.has_parent_path() ? path.parent_path() : std::filesystem::path("."), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || name.size() < stem.size() + kSeqDigits) continue;
    const std::string_view digits = std::string_view(name).substr(stem.size(), kSeqDigits);
    if (digits.find_first_not_of("0123456789") == std::string_view::npos)
      rotated.push_back(entry.path().string());
  }
  std::sort(rotated.begin(), rotated.end());
  for (size_t i = 0; i + options_.keep < rotated.size(); ++i) unlink(rotated[i].c_str());
}

bool FileSink::Moved() const {
  struct stat named;
  struct stat ours;
  return stat(options_.path.c_str(), &named) != 0 || fstat(file_.get(), &ours) != 0 ||
         named.st_ino != ours.st_ino || named.st_dev != ours.st_dev;
}

}  // namespace plugins::sinks
