// KeptLogs: the last output of runs that would otherwise be lost with them, such as the output of a deleted pod: one
// file for each run, of at most kBytes, mode 0600. Beyond kMost files, the oldest are removed.
//
// Blocks: off the loop. Any thread, one call at a time for each run.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace plugins::launchers {

class KeptLogs {
 public:
  static constexpr size_t kBytes = 256U << 10;
  static constexpr size_t kMost = 4096;

  // The folder is made when something is kept.
  explicit KeptLogs(std::string folder, size_t most = kMost) : folder_(std::move(folder)), most_(most) {}

  // In place of what was kept of the run. Of a longer text, whole lines from the end, and a line that says so.
  absl::Status Keep(const std::string& run, std::string_view text) const;
  // NotFound: nothing is kept.
  absl::StatusOr<std::string> Read(const std::string& run) const;
  absl::Status Remove(const std::string& run) const;

 private:
  absl::StatusOr<std::string> PathOf(const std::string& run) const;
  void Trim() const;

  const std::string folder_;
  const size_t most_;
};

// The end of a text that is kept of it.
std::string EndToKeep(std::string_view text, size_t most);

}  // namespace plugins::launchers
