#include "plugins/launchers/run_log.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_replace.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gateway/net/files.h"
#include "plugins/weights/progress.h"

namespace plugins::launchers {
namespace {

namespace net = gateway::net;
using net::Fd;

constexpr mode_t kLogMode = 0600;

// Any bytes as readable text: control characters become spaces, and bytes that are no UTF-8 are replaced.
std::string Readable(std::string text) {
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

absl::StatusOr<Fd> OpenLog(const std::string& path) {
  return net::OpenFile(path, O_CREAT | O_WRONLY | O_APPEND | O_NOFOLLOW, kLogMode);
}

absl::StatusOr<Fd> OpenLogForReading(const std::string& path, LogOwner owner) {
  absl::StatusOr<Fd> log = net::OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!log.ok()) return log.status();
  struct stat info{};
  if (fstat(log->get(), &info) != 0) return net::SystemError("stat", path, errno);
  if (owner == LogOwner::kThisProcess && info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(fmt::format(
        "cannot read {}: it belongs to the user {} and not to this one, so it is not the log of a run", path,
        info.st_uid));
  }
  if (S_ISREG(info.st_mode) && info.st_nlink <= 1) return log;
  return absl::FailedPreconditionError(
      "cannot read " + path + ": it is not a regular file with one name, so it is not the log of a run");
}

uint64_t LogBytes(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

std::string RotatedLog(const std::string& path) {
  return path + ".1";
}

std::string LogTail(const std::string& path, std::span<const std::string> secrets) {
  const absl::StatusOr<Fd> log = OpenLogForReading(path);
  if (!log.ok()) return {};
  // More than is shown, so that a secret at the edge is found whole.
  constexpr uint64_t kRead = 64 << 10;
  const uint64_t size = LogBytes(path);
  std::string text(std::min(size, kRead), '\0');
  text.resize(net::ReadAt(log->get(), path, size - text.size(), text).value_or(0));
  for (const std::string& secret : secrets) {
    if (!secret.empty()) absl::StrReplaceAll({{secret, "***"}}, &text);
  }
  std::deque<std::string_view> lines;
  size_t bytes = 0;
  for (std::string_view left = text; !left.empty() && lines.size() < kTailLines;) {
    const size_t line_end = left.rfind('\n');
    const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
    std::string_view line = left.substr(begin);
    left = left.substr(0, begin == 0 ? 0 : line_end);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || weights::IsProgressLine(line)) continue;
    if (bytes + line.size() > kTailBytes) {
      if (lines.empty()) lines.push_front(line.substr(line.size() - kTailBytes));
      break;
    }
    bytes += line.size();
    lines.push_front(line);
  }
  std::string tail;
  for (const std::string_view line : lines) {
    if (!tail.empty()) tail += " | ";
    tail += line;
  }
  return Readable(std::move(tail));
}

}  // namespace plugins::launchers
