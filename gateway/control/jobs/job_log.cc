#include "gateway/control/jobs/job_log.h"

#include <unistd.h>

#include <algorithm>

#include "gateway/net/files.h"
#include "plugins/launchers/run_log.h"

namespace gateway::control {
namespace {

// The length of the prefix that ends with a whole UTF-8 character; the rest is read together with what
// follows it.
size_t WholeCharacters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xC0) == 0x80) continue;
    const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

// Leaves whole characters, and at the end of an output of `size` bytes whole lines. Part of a character
// alone waits for its rest at the end of the output; elsewhere, `bytes` has no room for it.
void Trim(JobLog& log, uint64_t from, uint64_t size) {
  const bool at_end = from + log.text.size() == size;
  if (const size_t whole = WholeCharacters(log.text); whole > 0 || at_end) log.text.resize(whole);
  log.next = from + log.text.size();
  if (const size_t line = log.text.find('\n'); log.cut && line != std::string::npos)
    log.text.erase(0, line + 1);
}

}  // namespace

absl::StatusOr<JobLog> ReadJobLog(const std::string& path, const WhichLog& which,
                                  plugins::launchers::LogOwner owner) {
  absl::StatusOr<net::Fd> file = plugins::launchers::OpenLogForReading(path, owner);
  if (!file.ok()) return file.status();
  const absl::StatusOr<uint64_t> size = net::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  const uint64_t bytes = std::min(which.bytes, kMostLog);
  const bool end = !which.from;
  const uint64_t from = end ? *size - std::min(*size, bytes) : *which.from > *size ? 0 : *which.from;
  JobLog log;
  log.cut = end && from > 0;
  log.text.resize(std::min(*size - from, bytes));
  const absl::StatusOr<size_t> n = net::ReadAt(file->get(), path, from, log.text);
  if (!n.ok()) return n.status();
  log.text.resize(*n);
  Trim(log, from, *size);
  return log;
}

JobLog PartOfLog(std::string_view text, const WhichLog& which) {
  const uint64_t bytes = std::min(which.bytes, kMostLog);
  const bool end = !which.from;
  const uint64_t from = end                         ? text.size() - std::min<uint64_t>(text.size(), bytes)
                        : *which.from > text.size() ? 0
                                                    : *which.from;
  JobLog log;
  log.cut = end && from > 0;
  log.text = text.substr(from, bytes);
  Trim(log, from, text.size());
  return log;
}

}  // namespace gateway::control
