#include "gateway/routing/find.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "gateway/net/files.h"
#include "gateway/routing/files.h"

namespace gateway::routing {
namespace {

constexpr size_t kBlock = 1 << 20;

std::optional<LoggedRequest> ReadIfWanted(std::string_view line, std::string_view request) {
  if (line.empty() || (!request.empty() && line.find(request) == std::string_view::npos)) return std::nullopt;
  auto logged = ParseRoute(line);
  if (!logged.ok() || !*logged || (!request.empty() && (*logged)->request != request)) return std::nullopt;
  return *std::move(logged);
}

}  // namespace

std::vector<std::string> LogPaths(const std::string& state_dir, uint32_t files) {
  std::vector<std::string> paths;
  for (uint32_t n = 0; n < std::max(files, 1U); ++n) {
    std::string path = LogPath(state_dir, n);
    if (std::filesystem::exists(path)) paths.push_back(std::move(path));
  }
  if (paths.empty()) paths.push_back(LogPath(state_dir, 0));
  return paths;
}

absl::StatusOr<std::optional<LoggedRequest>> FindRequest(const std::string& path, std::string_view request) {
  const auto file = net::OpenFile(path, O_RDONLY | O_CLOEXEC);
  if (!file.ok()) return file.status();
  const auto size = net::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  std::string text;  // what was read and not yet searched; it may begin within a line
  for (auto at = static_cast<uint64_t>(*size); at > 0;) {
    const size_t bytes = std::min<uint64_t>(kBlock, at);
    at -= bytes;
    std::string block(bytes, '\0');
    const ssize_t got = pread(file->get(), block.data(), bytes, static_cast<off_t>(at));
    if (got != static_cast<ssize_t>(bytes)) break;  // the file was cut or replaced meanwhile
    text.insert(0, block);
    std::string_view rest = text;
    while (true) {
      if (rest.ends_with('\n')) rest.remove_suffix(1);
      const size_t end = rest.rfind('\n');
      if (end == std::string_view::npos && at > 0) break;
      const std::string_view line = end == std::string_view::npos ? rest : rest.substr(end + 1);
      if (std::optional<LoggedRequest> found = ReadIfWanted(line, request)) return found;
      if (end == std::string_view::npos) return std::nullopt;
      rest = rest.substr(0, end + 1);
    }
    text.resize(rest.size());
  }
  return std::nullopt;
}

}  // namespace gateway::routing
