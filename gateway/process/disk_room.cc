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
  given_back_ = net::RemoveFile(ReservePath()).ok();
}

bool DiskRoom::Check(uint64_t least) {
  const std::optional<uint64_t> free = FreeBytes(state_dir_);
  // Space freed from the reserve is kept for records of ending work.
  const uint64_t needed = least + (given_back_ ? kReserve : 0);
  const bool low = free && *free < needed;
  if (low && trouble_.empty()) {
    log::Error("disk nearly full; new requests are refused, and no job or replica is started",
               {{"state_dir", state_dir_}, {"available_bytes", *free}, {"needed_bytes", needed}});
  } else if (!low && !trouble_.empty()) {
    log::Info("disk has room again", {{"available_bytes", free.value_or(0)}});
  }
  trouble_.clear();
  if (low) {
    trouble_ = fmt::format(
        "the disk of {} has {:.1f} MiB free, less than {} ({:.1f} MiB)", state_dir_, InMib(*free),
        given_back_ ? "ledger.min_free_bytes and the reserve for a start" : "ledger.min_free_bytes",
        InMib(needed));
  } else if (free && *free >= least + kReserve) {
    if (MakeReserve()) given_back_ = false;
  }
  return !low;
}

// Whether it is there.
bool DiskRoom::MakeReserve() const {
  struct stat found{};
  if (lstat(ReservePath().c_str(), &found) == 0 && static_cast<uint64_t>(found.st_blocks) * 512 >= kReserve)
    return true;
  const auto file = net::OpenFile(ReservePath(), O_CREAT | O_WRONLY | O_NOFOLLOW, 0600);
  if (file.ok() && posix_fallocate(file->get(), 0, static_cast<off_t>(kReserve)) == 0) return true;
  unlink(ReservePath().c_str());
  return false;
}

}  // namespace gateway
