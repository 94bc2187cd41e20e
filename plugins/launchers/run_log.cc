#include "plugins/launchers/run_log.h"

#include <absl/strings/str_replace.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gateway/net/files.h"

namespace plugins::launchers {
namespace {

namespace net = gateway::net;
using net::Fd;

constexpr mode_t kLogMode = 0600;

// The start of the first whole line at or after `from`, if one begins soon.
off_t NextLine(int fd, off_t from) {
  if (from == 0) return 0;
  std::array<char, 4096> block;
  const ssize_t n = pread(fd, block.data(), block.size(), from - 1);
  const size_t line_end = std::string_view(block.data(), n > 0 ? static_cast<size_t>(n) : 0).find('\n');
  return line_end == std::string_view::npos ? from : from + static_cast<off_t>(line_end);
}

absl::Status CopyFrom(int source, off_t from, int target, const std::string& path) {
  std::array<char, 65536> block;
  while (true) {
    const ssize_t n = pread(source, block.data(), block.size(), from);
    if (n < 0) return net::SystemError("read", path, errno);
    if (n == 0) return absl::OkStatus();
    from += n;
    const absl::Status written =
        net::WriteAll(target, RotatedLog(path), {block.data(), static_cast<size_t>(n)});
    if (!written.ok()) return written;
  }
}

// Any bytes as readable text: control characters become spaces, and bytes that are no UTF-8 are replaced.
std::string Readable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

absl::StatusOr<Fd> OpenLog(const std::string& path) {
  return net::OpenFile(path, O_CREAT | O_WRONLY | O_APPEND, kLogMode);
}

uint64_t LogBytes(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

std::string RotatedLog(const std::string& path) {
  return path + ".1";
}

absl::Status RotateLog(const std::string& path, uint64_t keep_bytes) {
  absl::StatusOr<Fd> log = net::OpenFile(path, O_RDWR);
  if (!log.ok()) return log.status();
  const std::string fresh = path + ".new";
  absl::Status copied;
  if (absl::StatusOr<Fd> target = net::OpenFile(fresh, O_CREAT | O_TRUNC | O_WRONLY, kLogMode);
      !target.ok()) {
    copied = target.status();
  } else {
    const auto size = static_cast<off_t>(LogBytes(path));
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(keep_bytes));
    copied = CopyFrom(log->get(), NextLine(log->get(), from), target->get(), path);
  }
  if (copied.ok() && rename(fresh.c_str(), RotatedLog(path).c_str()) != 0)
    copied = net::SystemError("rename to", RotatedLog(path), errno);
  if (!copied.ok()) unlink(fresh.c_str());
  // Also without room for the copy: a log must not fill the disk.
  if (ftruncate(log->get(), 0) != 0) return net::SystemError("cut", path, errno);
  return copied;
}

std::string LogTail(const std::string& path, std::span<const std::string> secrets) {
  const absl::StatusOr<Fd> log = net::OpenFile(path, O_RDONLY);
  if (!log.ok()) return {};
  // More than is shown, so that a secret at the edge is found whole.
  constexpr uint64_t kRead = 64 << 10;
  const uint64_t size = LogBytes(path);
  std::string text(std::min(size, kRead), '\0');
  const ssize_t n = pread(log->get(), text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
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
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
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
