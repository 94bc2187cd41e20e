// RunRecord: what is kept on disk of a run of this machine, so that a gateway that starts again finds it.
//
// One JSON file for each run, without the values of its environment. A file that is not such a record is
// reported and never overwritten. Records of version 1, of runs without a wrapper, are still read.
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
  DeviceGrant grant{};
  std::vector<std::string> command{};
  std::vector<std::string> env_names{};  // that it was given
  std::string directory{};
  std::string user{};  // the user of the run; empty: the gateway's
  bool serves = false;
  uint16_t port = 0;

  // Its wrapper; of a run without one, its first process. Leads its group and session.
  std::string boot{};
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  bool wrapped = true;
  std::string cgroup{};  // empty: it has none

  RunState state = RunState::kRunning;  // kStarting is not recorded: nothing runs yet
  conf::TimePoint since{};
  conf::TimePoint kill_at{};  // of one that stops
  bool asked = false;         // its end was requested
  std::optional<int> exit_code{};
  std::optional<int> signal{};
  std::string why{};
  std::optional<conf::TimePoint> started{};
  std::optional<conf::TimePoint> ended{};
  Witness witness = Witness::kNobody;
};

// On several lines, for people too; or on one, for an environment.
enum class RecordLayout : uint8_t { kLines, kLine };
std::string WriteRecord(const RunRecord& record, RecordLayout layout = RecordLayout::kLines);
// The error says what is wrong with the text, without naming the file.
absl::StatusOr<RunRecord> ReadRecord(std::string_view text);

}  // namespace plugins::launchers
