#include "gateway/process/disk_room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "gateway/log.h"
#include "gateway/net/files.h"

namespace gateway {
namespace {

// Nothing where it cannot be told.
std::optional<uint64_t> FreeBytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) return std::nullopt;
  return space.available;
}

double InMib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

void DiskRoom::Begin(uint64_t least) {
  const std::optional<uint64_t> free = FreeBytes(state_dir_);
  if (!free || *free >= least) return;
  net::RemoveFile(ReservePath()).IgnoreError();
}

bool DiskRoom::Look(uint64_t least) {
  const std::optional<uint64_t> free = FreeBytes(state_dir_);
  const bool low = free && *free < least;
  if (low && trouble_.empty()) {
    log::Error("disk nearly full; new requests are refused, and no job or replica is started",
               {{"state_dir", state_dir_}, {"available_bytes", *free}, {"min_free_bytes", least}});
  } else if (!low && !trouble_.empty()) {
    log::Info("disk has room again", {{"available_bytes", free.value_or(0)}});
  }
  trouble_.clear();
  if (low) {
    trouble_ = fmt::format("the disk of {} has {:.1f} MiB free, less than ledger.min_free_bytes ({:.1f} MiB)",
                           state_dir_, InMib(*free), InMib(least));
  } else if (free && *free >= least + kReserve) {
    MakeReserve();
  }
  return !low;
}

void DiskRoom::MakeReserve() const {
  struct stat found{};
  if (lstat(ReservePath().c_str(), &found) == 0 &&
      uint64_t{static_cast<uint64_t>(found.st_blocks)} * 512 >= kReserve)
    return;
  const auto file = net::OpenFile(ReservePath(), O_CREAT | O_WRONLY | O_NOFOLLOW, 0600);
  if (file.ok() && posix_fallocate(file->get(), 0, static_cast<off_t>(kReserve)) != 0)
    unlink(ReservePath().c_str());
}

}  // namespace gateway
