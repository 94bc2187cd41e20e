#include "plugins/devices/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "gateway/net/files.h"
#include "gateway/net/resource_owner.h"

namespace plugins::devices {
namespace {

using gateway::net::Fd;

constexpr mode_t kFolderMode = 01777;
constexpr mode_t kFileMode = 0600;
// A process that a killed gateway was about to start holds its locks until it ends.
constexpr int kTries = 200;
constexpr std::chrono::milliseconds kPause{10};

std::string FileName(std::string_view device) {
  std::string name(device);
  for (char& c : name) {
    if (c == '/' || c == '.' || static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return name;
}

absl::Status MakeFolder(const std::string& folder, std::span<const uid_t> ignored) {
  if (mkdir(folder.c_str(), kFolderMode) == 0) {
    chmod(folder.c_str(), kFolderMode);  // whatever the umask
    return absl::OkStatus();
  }
  if (errno != EEXIST) return gateway::net::SystemError("make", folder, errno);
  struct stat info{};
  if (lstat(folder.c_str(), &info) != 0) return gateway::net::SystemError("stat", folder, errno);
  const bool others_remove = (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (S_ISDIR(info.st_mode) && !others_remove && std::ranges::find(ignored, info.st_uid) == ignored.end())
    return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} cannot hold the locks of devices: it must be a folder that no user of runs owns, and in "
      "which users cannot remove each other's files (mode 1777); remove it",
      folder));
}

absl::Status Taken(const std::string& device, const std::string& path, std::string_view whose) {
  const std::string owner = gateway::net::LockOwner(path);
  return absl::FailedPreconditionError(
      fmt::format("the device {} of this machine is assigned by {}{} already (it holds {}); stop that "
                  "gateway, or give each gateway devices of its own",
                  device, owner.empty() ? "another process" : owner, whose, path));
}

// Files of other users for the same device.
absl::Status CheckOthers(const std::string& folder, const std::string& device,
                         std::span<const uid_t> ignored) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path();
    struct stat info{};
    if (!entry->path().filename().string().starts_with(FileName(device) + ".") ||
        lstat(path.c_str(), &info) != 0 || info.st_uid == geteuid() ||
        std::ranges::find(ignored, info.st_uid) != ignored.end())
      continue;
    if (!gateway::net::LockOwner(path).empty())
      return Taken(device, path, fmt::format(" of user {}", info.st_uid));
  }
  if (error) return gateway::net::SystemError("read", folder, error.value());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceClaims> DeviceClaims::Take(const std::string& folder,
                                                const std::vector<std::string>& devices,
                                                std::span<const uid_t> ignored) {
  DeviceClaims claims;
  if (devices.empty()) return claims;
  if (absl::Status made = MakeFolder(folder, ignored); !made.ok()) return made;
  for (const std::string& device : devices) {
    const std::string path = fmt::format("{}/{}.{}", folder, FileName(device), geteuid());
    absl::StatusOr<Fd> file = gateway::net::OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode);
    if (!file.ok()) return file.status();
    int tries = kTries;
    while (flock(file->get(), LOCK_EX | LOCK_NB) != 0 && --tries > 0) std::this_thread::sleep_for(kPause);
    if (tries == 0) return Taken(device, path, "");
    claims.locks_.push_back(*std::move(file));
    // After the own lock: of two that start at the same time at least one sees the other.
    if (absl::Status others = CheckOthers(folder, device, ignored); !others.ok()) return others;
  }
  return claims;
}

std::string DefaultClaimFolder() {
  return std::string(access("/run/lock", W_OK) == 0 ? "/run/lock" : "/tmp") + "/tidegate";
}

}  // namespace plugins::devices
