#include "gateway/config/sources.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "gateway/net/files.h"

namespace gateway {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr size_t kMaxFolderEntries = 10'000;
constexpr std::string_view kMissing = "not-set-for-this-command:";

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  return net::ReadFile(path, kMaxFileBytes);
}

absl::StatusOr<std::vector<std::string>> ReadFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (names.size() == kMaxFolderEntries) {
      return absl::UnavailableError(fmt::format("{} has more than {} entries", path, kMaxFolderEntries));
    }
    names.push_back(entry->path().filename().string());
  }
  if (error) return net::SystemError("read", path, error.value());
  return names;
}

std::optional<std::string> Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

conf::Sources SystemSources() {
  return {.environment = Environment, .file = ReadFile, .folder = ReadFolder};
}

conf::Sources SourcesForCommands() {
  conf::Sources sources = SystemSources();
  sources.environment = [](const std::string& name) {
    return Environment(name).value_or(std::string(kMissing) + name);
  };
  return sources;
}

std::optional<std::string_view> MissingVariable(std::string_view secret) {
  if (!secret.starts_with(kMissing)) return std::nullopt;
  return secret.substr(kMissing.size());
}

}  // namespace gateway
