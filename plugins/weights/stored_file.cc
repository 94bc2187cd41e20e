#include "plugins/weights/stored_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "gateway/net/files.h"
#include "plugins/weights/listing.h"

namespace plugins::weights {

absl::StatusOr<StoredFile> OpenBelow(const std::string& folder, std::string_view path) {
  const std::string whole = fmt::format("{}/{}", folder, path);
  if (const std::string defect = PathDefect(path); !defect.empty())
    return absl::FailedPreconditionError(defect);
  absl::StatusOr<gateway::net::Fd> at = gateway::net::OpenFile(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!at.ok()) return at.status();
  while (true) {
    const size_t slash = path.find('/');
    const bool last = slash == std::string_view::npos;
    const std::string name(path.substr(0, slash));
    // Without O_NONBLOCK, a FIFO would block here.
    const int flags = O_NOFOLLOW | O_CLOEXEC | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    gateway::net::Fd next(openat(at->get(), name.c_str(), flags));
    if (!next && (errno == ELOOP || errno == ENOTDIR))
      return absl::FailedPreconditionError(fmt::format("{} is behind a link", whole));
    if (!next) return gateway::net::SystemError("open", whole, errno);
    *at = std::move(next);
    if (last) break;
    path.remove_prefix(slash + 1);
  }
  struct stat info{};
  if (fstat(at->get(), &info) != 0) return gateway::net::SystemError("stat", whole, errno);
  if (!S_ISREG(info.st_mode))
    return absl::FailedPreconditionError(fmt::format("{} is not a regular file", whole));
  return StoredFile{*std::move(at), static_cast<uint64_t>(info.st_size)};
}

}  // namespace plugins::weights
