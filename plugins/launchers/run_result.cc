#include "plugins/launchers/run_result.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "gateway/net/files.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers {
namespace {

using gateway::net::Fd;
using nlohmann::json;

constexpr size_t kFileBytes = 2 * static_cast<size_t>(wrapper::kBlockBytes);

// The line at the start of a block; an empty object where none was written, or not to its end.
json LineOf(std::string_view content, size_t block) {
  const size_t at = block * static_cast<size_t>(wrapper::kBlockBytes);
  if (at >= content.size()) return json::object();
  std::string_view line = content.substr(at, static_cast<size_t>(wrapper::kBlockBytes));
  const size_t end = line.find('\n');
  if (end == std::string_view::npos) return json::object();
  json object = conf::ParseJson(line.substr(0, end));
  return object.is_object() ? object : json::object();
}

std::optional<int64_t> NumberOf(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<int> SmallNumberOf(const json& object, const char* key) {
  const std::optional<int64_t> number = NumberOf(object, key);
  if (!number || *number < 0 || *number > 255) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

RunResult ParseResult(std::string_view content) {
  RunResult result;
  const json first = LineOf(content, 0);
  const std::optional<int64_t> started = NumberOf(first, "started");
  const std::optional<int64_t> child = NumberOf(first, "child");
  const std::optional<int64_t> ticks = NumberOf(first, "child_ticks");
  if (started && child && ticks && std::in_range<pid_t>(*child)) {
    result.beginning = {.child = static_cast<pid_t>(*child),
                        .child_ticks = static_cast<uint64_t>(*ticks),
                        .started = conf::FromUnixMicros(*started)};
  }
  const json second = LineOf(content, 1);
  const std::optional<int64_t> ended = NumberOf(second, "ended");
  const std::optional<int> exit_code = SmallNumberOf(second, "exit_code");
  const std::optional<int> signal = SmallNumberOf(second, "signal");
  if (ended && (exit_code || signal)) {
    result.end = {.ended = conf::FromUnixMicros(*ended),
                  .exit_code = exit_code,
                  .signal = signal,
                  .killed = second.value("killed", json(false)) == json(true)};
  }
  return result;
}

absl::Status MakeResultFile(const std::string& path) {
  const absl::StatusOr<Fd> file =
      gateway::net::OpenFile(path, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW, 0600);
  if (!file.ok()) return file.status();
  if (const int error = posix_fallocate(file->get(), 0, static_cast<off_t>(kFileBytes)); error != 0)
    return gateway::net::SystemError("reserve room for", path, error);
  if (fsync(file->get()) != 0) return gateway::net::SystemError("sync", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<RunResult> ReadResultFile(const std::string& path) {
  const absl::StatusOr<std::string> content = gateway::net::ReadFile(path, kFileBytes);
  if (!content.ok()) return content.status();
  RunResult result = ParseResult(*content);
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) {
    result.last_alive =
        conf::FromUnixMicros(int64_t{info.st_mtim.tv_sec} * 1'000'000 + info.st_mtim.tv_nsec / 1000);
  }
  return result;
}

}  // namespace plugins::launchers
