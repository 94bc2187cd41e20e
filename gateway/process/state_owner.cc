#include "gateway/process/state_owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "gateway/config/state_files.h"
#include "gateway/net/fd.h"

namespace gateway {
namespace {

void GiveFiles(const std::string& folder, const struct stat& owner) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    // Opened to name it alone: to close it otherwise would drop SQLite's locks.
    const net::Fd file(open(entry->path().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info{};
    if (!file || fstat(file.get(), &info) != 0 || info.st_uid != 0) continue;
    // A file with another name might be one that the owner of the folder may not have.
    if (S_ISREG(info.st_mode) && info.st_nlink == 1)
      (void)!fchownat(file.get(), "", owner.st_uid, owner.st_gid, AT_EMPTY_PATH);
  }
}

}  // namespace

void GiveToOwner(const std::string& state_dir) {
  struct stat owner{};
  if (geteuid() != 0 || stat(state_dir.c_str(), &owner) != 0 || owner.st_uid == 0) return;
  GiveFiles(state_dir, owner);
  GiveFiles(LedgerDir(state_dir), owner);
}

}  // namespace gateway
