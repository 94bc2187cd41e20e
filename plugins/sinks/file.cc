#include "plugins/sinks/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "gateway/net/off_loop.h"

namespace plugins::sinks {
namespace {

constexpr size_t kSeqDigits = 20;

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

FileSink::~FileSink() {
  CloseFile();
}

void FileSink::CloseFile() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status FileSink::Error(const char* what) const {
  return absl::UnavailableError(
      fmt::format("{} {}: {}", what, options_.path, std::generic_category().message(errno)));
}

gateway::net::Task<absl::Status> FileSink::Deliver(std::span<const Record> batch, conf::TimePoint) {
  co_return co_await gateway::net::OffLoop(loop_, [this, batch] { return Append(batch); });
}

absl::Status FileSink::Append(std::span<const Record> batch) {
  if (batch.empty()) return absl::OkStatus();
  std::string bytes;
  for (const Record& record : batch) bytes.append(record.line).push_back('\n');
  if (fd_ >= 0 && Moved()) CloseFile();
  if (fd_ < 0) {
    if (absl::Status opened = Open(); !opened.ok()) return opened;
  }
  if (size_ > 0 && size_ + bytes.size() > options_.max_bytes) {
    if (absl::Status rotated = Rotate(batch.front().seq - 1); !rotated.ok()) return rotated;
  }
  if (!WriteAll(fd_, bytes) || fdatasync(fd_) != 0) {
    const absl::Status failed = Error("write to");
    // Nothing half written stays; where even that fails, opening it again cuts it.
    if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) CloseFile();
    return failed;
  }
  size_ += bytes.size();
  return absl::OkStatus();
}

absl::Status FileSink::Open() {
  fd_ = open(options_.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, options_.mode);
  if (fd_ < 0) return Error("open");
  struct stat info;
  absl::Status status;
  if (fstat(fd_, &info) != 0) {
    status = Error("stat");
  } else if (!S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(fmt::format("{} is not a regular file", options_.path));
  } else {
    size_ = static_cast<uint64_t>(info.st_size);
    status = CutTornLine();
  }
  if (status.ok()) status = SyncFolder();
  if (!status.ok()) CloseFile();
  return status;
}

absl::Status FileSink::CutTornLine() {
  std::array<char, 4096> block;
  uint64_t end = size_;  // nothing behind it is a line end
  while (end > 0) {
    const size_t n = std::min<uint64_t>(block.size(), end);
    if (pread(fd_, block.data(), n, static_cast<off_t>(end - n)) != static_cast<ssize_t>(n))
      return Error("read");
    const size_t line_end = std::string_view(block.data(), n).rfind('\n');
    if (line_end != std::string_view::npos) {
      end = end - n + line_end + 1;
      break;
    }
    end -= n;
  }
  if (end == size_) return absl::OkStatus();
  if (ftruncate(fd_, static_cast<off_t>(end)) != 0) return Error("truncate");
  size_ = end;
  return absl::OkStatus();
}

absl::Status FileSink::Rotate(uint64_t last_seq) {
  // A name may be taken when a crash came between the rotation and the cursor: then it gets a suffix.
  const std::string base = fmt::format("{}.{:0{}}", options_.path, last_seq, kSeqDigits);
  std::string target = base;
  for (int i = 1; renameat2(AT_FDCWD, options_.path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) != 0;
       ++i) {
    if (errno != EEXIST) return Error("rotate");
    target = fmt::format("{}-{}", base, i);
  }
  CloseFile();
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
  return stat(options_.path.c_str(), &named) != 0 || fstat(fd_, &ours) != 0 || named.st_ino != ours.st_ino ||
         named.st_dev != ours.st_dev;
}

absl::Status FileSink::SyncFolder() const {
  std::string folder = std::filesystem::path(options_.path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error("open the folder of");
  const bool synced = fsync(fd) == 0;
  const absl::Status status = synced ? absl::OkStatus() : Error("sync the folder of");
  close(fd);
  return status;
}

}  // namespace plugins::sinks
