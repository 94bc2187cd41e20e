#include "gateway/batches/kept_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "gateway/batches/frame.h"
#include "gateway/net/files.h"

namespace gateway::batches {

absl::StatusOr<KeptFile> KeptFile::Create(std::string path, ledger::ContentKeyRef key) {
  absl::StatusOr<net::Fd> fd = net::OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd.ok()) return fd.status();
  return KeptFile(std::move(path), std::move(key), *std::move(fd));
}

absl::StatusOr<KeptFile> KeptFile::Open(std::string path, ledger::ContentKeyRef key, Access access) {
  const int flags = access == Access::kRead ? O_RDONLY : O_RDWR | O_CREAT;
  absl::StatusOr<net::Fd> fd = net::OpenFile(path, flags | O_NOFOLLOW, 0600);
  if (!fd.ok()) return fd.status();
  KeptFile file(std::move(path), std::move(key), *std::move(fd));
  const absl::StatusOr<uint64_t> size = net::FileSize(file.fd_.get(), file.path_);
  if (!size.ok()) return size.status();
  file.disk_ = *size;
  if (file.key_ == nullptr) {
    file.bytes_ = *size;
  } else if (absl::Status found = file.FindFrames(); !found.ok()) {
    return found;
  }
  if (access == Access::kAppend && lseek(file.fd_.get(), static_cast<off_t>(file.disk_), SEEK_SET) < 0)
    return net::SystemError("seek in", file.path_, errno);
  return file;
}

absl::Status KeptFile::FindFrames() {
  std::array<char, kFrameLengthBytes> head{};
  uint64_t at = 0;
  while (at + kFrameExtra <= disk_) {
    const absl::StatusOr<size_t> read = net::ReadAt(fd_.get(), path_, at, head);
    if (!read.ok()) return read.status();
    const std::optional<size_t> found = FrameLength({head.data(), head.size()});
    if (!found || at + kFrameExtra + *found > disk_) break;
    const uint64_t length = *found;
    frames_.push_back({.text = bytes_, .disk = at});
    bytes_ += length;
    at += kFrameExtra + length;
  }
  disk_ = at;
  // The last ones may have their lengths and not their texts; all of them are not torn by a crash.
  const size_t whole = frames_.size();
  absl::Status opened;
  while (!frames_.empty() && !(opened = ReadFrame(frames_.size() - 1)).ok()) {
    bytes_ = frames_.back().text;
    disk_ = frames_.back().disk;
    frames_.pop_back();
  }
  return frames_.empty() && whole > 1 ? opened : absl::OkStatus();
}

uint64_t KeptFile::EndOf(size_t frame) const {
  return frame + 1 < frames_.size() ? frames_[frame + 1].text : bytes_;
}

absl::Status KeptFile::ReadFrame(size_t frame) {
  if (frame == opened_frame_) return absl::OkStatus();
  opened_frame_ = SIZE_MAX;
  const Frame& at = frames_[frame];
  std::string sealed(EndOf(frame) - at.text + kFrameExtra - kFrameLengthBytes, '\0');
  const absl::StatusOr<size_t> read = net::ReadAt(fd_.get(), path_, at.disk + kFrameLengthBytes, sealed);
  if (!read.ok()) return read.status();
  std::optional<std::string> text = *read == sealed.size() ? OpenFrame(*key_, at.text, sealed) : std::nullopt;
  if (!text) {
    return absl::DataLossError(
        conf::Abseil(fmt::format("{} was changed at byte {}, or sealed under another key", path_, at.disk)));
  }
  opened_ = *std::move(text);
  opened_frame_ = frame;
  return absl::OkStatus();
}

absl::StatusOr<size_t> KeptFile::ReadAt(uint64_t offset, std::span<char> out) {
  if (key_ == nullptr) return net::ReadAt(fd_.get(), path_, offset, out);
  const auto after = std::ranges::upper_bound(frames_, offset, {}, &Frame::text);
  size_t read = 0;
  for (auto frame = static_cast<size_t>(after - frames_.begin()) - 1; read < out.size() && offset < bytes_;
       ++frame) {
    if (absl::Status opened = ReadFrame(frame); !opened.ok()) return opened;
    const std::string_view text =
        std::string_view(opened_).substr(kFrameOffsetBytes + (offset - frames_[frame].text));
    const size_t taken = std::min(text.size(), out.size() - read);
    std::memcpy(out.data() + read, text.data(), taken);
    read += taken;
    offset += taken;
  }
  return read;
}

absl::Status KeptFile::Append(std::string_view text) {
  if (key_ == nullptr) {
    if (absl::Status written = net::WriteAll(fd_.get(), path_, text); !written.ok()) return written;
    bytes_ += text.size();
    disk_ += text.size();
    return absl::OkStatus();
  }
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kFrameText);
    const std::string frame = SealFrame(*key_, bytes_, part);
    if (absl::Status written = net::WriteAll(fd_.get(), path_, frame); !written.ok()) return written;
    frames_.push_back({.text = bytes_, .disk = disk_});
    bytes_ += part.size();
    disk_ += frame.size();
    text.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

absl::Status KeptFile::Sync() const {
  return fdatasync(fd_.get()) == 0 ? absl::OkStatus() : net::SystemError("sync", path_, errno);
}

absl::Status KeptFile::Truncate(uint64_t disk) {
  if (ftruncate(fd_.get(), static_cast<off_t>(disk)) != 0) return net::SystemError("truncate", path_, errno);
  if (lseek(fd_.get(), static_cast<off_t>(disk), SEEK_SET) < 0)
    return net::SystemError("seek in", path_, errno);
  disk_ = disk;
  return absl::OkStatus();
}

absl::Status KeptFile::CutTo(uint64_t bytes) {
  if (key_ == nullptr) {
    bytes_ = bytes;
    return Truncate(bytes);
  }
  std::string kept;  // of the frame in which the cut is
  while (!frames_.empty() && bytes_ > bytes) {
    const Frame last = frames_.back();
    if (last.text < bytes) {
      if (absl::Status opened = ReadFrame(frames_.size() - 1); !opened.ok()) return opened;
      kept = opened_.substr(kFrameOffsetBytes, bytes - last.text);
    }
    frames_.pop_back();
    opened_frame_ = SIZE_MAX;
    bytes_ = last.text;
    disk_ = last.disk;
  }
  if (absl::Status cut = Truncate(disk_); !cut.ok()) return cut;
  return Append(kept);
}

}  // namespace gateway::batches
