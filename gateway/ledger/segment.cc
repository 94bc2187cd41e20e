#include "gateway/ledger/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

constexpr size_t kDigits = 20;
constexpr std::string_view kExtension = ".jsonl";
constexpr size_t kChunk = 256 * 1024;
constexpr uint64_t kKeptPages = 4 << 20;  // bytes

}  // namespace

std::string SegmentPath(std::string_view dir, uint64_t first_seq) {
  return fmt::format("{}/{:020}{}", dir, first_seq, kExtension);
}

std::string SparePath(std::string_view dir) {
  return fmt::format("{}/next-segment", dir);
}

absl::StatusOr<std::vector<SegmentName>> ListSegments(const std::string& dir) {
  std::vector<SegmentName> segments;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() != kDigits + kExtension.size() || !name.ends_with(kExtension)) continue;
    uint64_t first_seq = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + kDigits, first_seq);
    if (bad != std::errc{} || rest != name.data() + kDigits) continue;
    segments.push_back({first_seq, it->path().string()});
  }
  if (error) return net::SystemError("list", dir, error.value());
  std::sort(segments.begin(), segments.end(),
            [](const SegmentName& a, const SegmentName& b) { return a.first_seq < b.first_seq; });
  return segments;
}

absl::StatusOr<LineReader> LineReader::Open(const std::string& path, uint64_t offset) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY);
  if (!file.ok()) return file.status();
  return LineReader(path, *std::move(file), offset);
}

absl::StatusOr<std::optional<std::string_view>> LineReader::Next() {
  while (true) {
    if (begin_ + seen_ < filled_) {
      const char* from = buffer_.data() + begin_;
      const void* newline = std::memchr(from + seen_, '\n', filled_ - begin_ - seen_);
      if (newline != nullptr) {
        const std::string_view line(from, static_cast<size_t>(static_cast<const char*>(newline) - from));
        begin_ += line.size() + 1;
        offset_ += line.size() + 1;
        seen_ = 0;
        return line;
      }
      seen_ = filled_ - begin_;
      if (seen_ > kMaxLine) {
        return absl::DataLossError(conf::Abseil(fmt::format(
            "{}: the line at byte {} is longer than any record ({} bytes)", path_, offset_, kMaxLine)));
      }
    }
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, filled_ - begin_);
      filled_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() < filled_ + kChunk) buffer_.resize(filled_ + kChunk);
    const ssize_t n = pread(file_.get(), buffer_.data() + filled_, kChunk,
                            static_cast<off_t>(offset_ + (filled_ - begin_)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return net::SystemError("read", path_, errno);
    if (n == 0) return std::nullopt;
    filled_ += static_cast<size_t>(n);
  }
}

absl::StatusOr<SegmentWriter> SegmentWriter::Create(const std::string& dir, uint64_t first_seq,
                                                    FileOps* files) {
  const std::string path = SegmentPath(dir, first_seq);
  const bool spare = net::RenameToFree(SparePath(dir), path).ok();
  absl::StatusOr<net::Fd> file = spare ? net::OpenFile(path, O_RDWR) : files->Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status synced = net::SyncDirectory(dir); !synced.ok()) {
    unlink(path.c_str());
    return synced;
  }
  return SegmentWriter(*std::move(file), 0, path, files);
}

absl::Status SegmentWriter::MakeSpare(const std::string& dir, uint64_t room, FileOps* files) {
  const std::string path = SparePath(dir);
  if (struct stat found{}; lstat(path.c_str(), &found) == 0) {
    if (S_ISREG(found.st_mode) && found.st_size == 0) return absl::OkStatus();
    if (absl::Status removed = net::RemoveFile(path); !removed.ok()) return removed;
  }
  absl::StatusOr<net::Fd> file = files->Create(path);
  if (!file.ok()) return file.status();
  const absl::Status reserved = files->Reserve(file->get(), 0, room);
  if (!net::IsDiskFull(reserved)) return absl::OkStatus();  // some file systems cannot reserve
  unlink(path.c_str());
  return reserved;
}

absl::StatusOr<SegmentWriter> SegmentWriter::Continue(const std::string& path, uint64_t size,
                                                      FileOps* files) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDWR);
  if (!file.ok()) return file.status();
  return SegmentWriter(*std::move(file), size, path, files);
}

absl::Status SegmentWriter::Append(std::string_view batch) {
  for (size_t done = 0; done < batch.size();) {
    absl::StatusOr<size_t> n =
        files_->WriteAt(file_.get(), batch.data() + done, batch.size() - done, size_ + done);
    if (!n.ok()) return n.status();
    done += *n;
  }
  if (absl::Status synced = files_->Sync(file_.get()); !synced.ok()) return synced;
  size_ += batch.size();
  ForgetPages();
  return absl::OkStatus();
}

void SegmentWriter::KeepRoom(uint64_t bytes) {
  if (reserved_ >= size_ + bytes / 2) return;
  if (files_->Reserve(file_.get(), size_, bytes).ok()) reserved_ = size_ + bytes;
}

void SegmentWriter::GiveRoomBack() {
  if (reserved_ > size_ && ftruncate(file_.get(), static_cast<off_t>(size_)) == 0) reserved_ = size_;
}

// Removes bytes from the page cache that are on disk and that active readers have read. Engines that load models need
// the cache, and the kernel then has free pages for the next records.
void SegmentWriter::ForgetPages() {
  if (size_ - forgotten_ < 2 * kKeptPages) return;
  const uint64_t until = size_ - kKeptPages;
  posix_fadvise(file_.get(), static_cast<off_t>(forgotten_), static_cast<off_t>(until - forgotten_),
                POSIX_FADV_DONTNEED);
  forgotten_ = until;
}

}  // namespace gateway::ledger
