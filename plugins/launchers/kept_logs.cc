#include "plugins/launchers/kept_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace plugins::launchers {
namespace {

constexpr std::string_view kSuffix = ".log";
constexpr std::string_view kCut = "(the output before this line was not kept)\n";

}  // namespace

std::string EndToKeep(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  std::string_view end = text.substr(text.size() - (most - std::min(most, kCut.size())));
  const size_t line = end.find('\n');
  if (line != std::string_view::npos && line + 1 < end.size()) end.remove_prefix(line + 1);
  return fmt::format("{}{}", kCut, end);
}

absl::StatusOr<std::string> KeptLogs::PathOf(const std::string& run) const {
  if (run.empty() || run.front() == '.' || run.find('/') != std::string::npos)
    return absl::InvalidArgumentError(conf::Abseil(fmt::format("\"{}\" is not the id of a run", run)));
  return fmt::format("{}/{}{}", folder_, run, kSuffix);
}

absl::Status KeptLogs::Keep(const std::string& run, std::string_view text) const {
  const absl::StatusOr<std::string> path = PathOf(run);
  if (!path.ok()) return path.status();
  if (absl::Status made = gateway::net::MakeDirectories(folder_, 0700); !made.ok()) return made;
  if (absl::Status written = gateway::net::ReplaceFile(*path, EndToKeep(text, kBytes), 0600); !written.ok())
    return written;
  Trim();
  return absl::OkStatus();
}

absl::StatusOr<std::string> KeptLogs::Read(const std::string& run) const {
  const absl::StatusOr<std::string> path = PathOf(run);
  if (!path.ok()) return path.status();
  std::error_code error;
  if (!std::filesystem::is_regular_file(*path, error))
    return absl::NotFoundError(conf::Abseil(fmt::format("nothing is kept of the output of run {}", run)));
  return gateway::net::ReadFile(*path, kBytes);
}

absl::Status KeptLogs::Remove(const std::string& run) const {
  const absl::StatusOr<std::string> path = PathOf(run);
  if (!path.ok()) return path.status();
  std::error_code error;
  std::filesystem::remove(*path, error);
  return error ? absl::UnavailableError(conf::Abseil(fmt::format("{}: {}", *path, error.message())))
               : absl::OkStatus();
}

void KeptLogs::Trim() const {
  std::error_code error;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  std::filesystem::directory_iterator entry(folder_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!entry->path().native().ends_with(kSuffix)) continue;
    std::error_code gone;
    const auto written = std::filesystem::last_write_time(entry->path(), gone);
    if (!gone) files.emplace_back(written, entry->path());
  }
  if (files.size() <= most_) return;
  std::ranges::sort(files);
  files.resize(files.size() - most_);
  for (const auto& [written, path] : files) std::filesystem::remove(path, error);
}

}  // namespace plugins::launchers
