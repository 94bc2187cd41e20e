#include "conf/sources.h"

#include <absl/cleanup/cleanup.h>
#include <absl/status/status.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "conf/secret.h"

namespace conf {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr size_t kMaxFolderEntries = 10'000;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto failed = [&path](int error) {
    return absl::UnavailableError(fmt::format("cannot read \"{}\": {}", path, std::strerror(error)));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed(errno);
  const absl::Cleanup close_fd = [fd] { close(fd); };

  struct stat info{};
  if (fstat(fd, &info) != 0) return failed(errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::UnavailableError(fmt::format("cannot read \"{}\": it is not a regular file", path));
  }
  std::string contents(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  while (size < contents.size()) {
    const ssize_t got = read(fd, contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxFileBytes) {
    return absl::UnavailableError(
        fmt::format("cannot read \"{}\": it is larger than {} bytes", path, kMaxFileBytes));
  }
  std::string exact(contents, 0, size);
  Wipe(contents);
  return exact;
}

absl::StatusOr<std::vector<std::string>> ReadFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (names.size() == kMaxFolderEntries) {
      return absl::UnavailableError(fmt::format("\"{}\" has more than {} entries", path, kMaxFolderEntries));
    }
    names.push_back(entry->path().filename().string());
  }
  if (error) return absl::UnavailableError(fmt::format("cannot read \"{}\": {}", path, error.message()));
  return names;
}

std::optional<std::string> Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

Sources SystemSources() {
  return {.environment = Environment, .file = ReadFile, .folder = ReadFolder};
}

}  // namespace conf
