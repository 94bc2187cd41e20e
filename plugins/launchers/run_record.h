// RunRecord: what is kept on disk of a run of this machine, so that a gateway that starts anew finds it.
//
// One JSON file for each run. Values of its environment are not in it. A file that is not one of these is
// told of and never written over.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

struct RunRecord {
  std::string id{};
  std::string owner{};
  std::string tenant{};
  Grant grant{};
  std::vector<std::string> command{};
  std::vector<std::string> env_names{};  // that it was given
  std::string directory{};
  bool serves = false;
  uint16_t port = 0;

  // Its first process, which leads its group and session.
  std::string boot{};
  pid_t pid = 0;
  uint64_t start_ticks = 0;

  RunState state = RunState::kRunning;  // kStarting is not recorded: there is nothing yet
  conf::TimePoint since{};
  conf::TimePoint kill_at{};  // of one that stops
  bool asked = false;         // it was told to end
  std::optional<int> exit_code{};
  std::optional<int> signal{};
  std::string why{};
};

std::string WriteRecord(const RunRecord& record);
// The error says what is wrong with the text, without naming the file.
absl::StatusOr<RunRecord> ReadRecord(std::string_view text);

}  // namespace plugins::launchers
