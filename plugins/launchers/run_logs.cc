#include "plugins/launchers/run_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "gateway/net/files.h"
#include "plugins/launchers/run_log.h"

namespace plugins::launchers {
namespace {

constexpr std::string_view kRemoved =
    "[tidegate: the output of this run was removed, since the logs of all runs were above "
    "scaling.runs.logs_mib]\n";
// A log below this takes a block of the disk with or without the line.
constexpr uint64_t kNotWorthIt = 4096;

struct Sizes {
  const KeptLog* log;
  uint64_t last;
  uint64_t older;
};

// Replaces the log by a note that it was removed. Returns the size of the file then.
uint64_t Replace(const std::string& path) {
  const auto file = gateway::net::OpenFile(path, O_WRONLY | O_TRUNC | O_NOFOLLOW);
  if (file.ok()) gateway::net::WriteAll(file->get(), path, kRemoved).IgnoreError();
  return LogBytes(path);
}

uint64_t RemoveOlder(const std::string& path) {
  unlink(RotatedLog(path).c_str());
  return LogBytes(RotatedLog(path));
}

}  // namespace

uint64_t TrimLogs(const std::vector<KeptLog>& logs, uint64_t most) {
  std::vector<Sizes> sizes;
  sizes.reserve(logs.size());
  uint64_t left = 0;
  for (const KeptLog& log : logs) {
    sizes.push_back({&log, LogBytes(log.path), LogBytes(RotatedLog(log.path))});
    left += sizes.back().last + sizes.back().older;
  }
  if (left <= most) return left;
  std::ranges::sort(sizes, [](const Sizes& a, const Sizes& b) {
    if (a.log->runs != b.log->runs) return b.log->runs;
    return a.log->runs ? a.older > b.older : a.log->since < b.log->since;
  });
  for (const Sizes& one : sizes) {
    if (left <= most) break;
    if (one.older > 0) left -= one.older - std::min(one.older, RemoveOlder(one.log->path));
    if (one.log->runs || left <= most || one.last <= kNotWorthIt) continue;
    left -= one.last - std::min(one.last, Replace(one.log->path));
  }
  return left;
}

}  // namespace plugins::launchers
