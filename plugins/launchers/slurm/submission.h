// Submissions: the body of a submitted job, and the mark by which a gateway knows its own jobs. Pure.
//
// A run is one batch job on one node, named by the run's id. It is submitted as a singleton: of jobs with one
// name and user Slurm runs one at a time, so a submission that was made twice, because its answer was lost,
// never runs twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers::slurm {

// In a job's comment, as JSON. A job is ours when its state is ours and its user the one of our submissions.
struct Mark {
  std::string state{};  // of the gateway: a name of its state directory, which outlives the process
  std::string owner{};
  std::string tenant{};
  uint16_t port = 0;   // 0: none
  uint64_t epoch = 0;  // of the leader that started it; 0: not known
  friend bool operator==(const Mark&, const Mark&) = default;
};
std::string Render(const Mark& mark);
// Absent for any other comment.
std::optional<Mark> ReadMark(std::string_view comment);

struct Submission {
  RunSpec run{};  // its words with their placeholders
  Mark mark{};
  std::string host{};  // the address at which it listens, if it serves
  std::string partition{};
  std::string account{};  // this and the next: empty, the user's own
  std::string qos{};
  std::string gres{};  // "gpu:h100:2", or empty
  uint32_t cpus = 1;
  int64_t memory_mib = 0;  // 0: the cluster's default
  std::string log{};       // empty: none is kept
  std::string result{};    // likewise: where its end is written down
};
std::string RenderBody(const Submission& submission);

// Why the run can never be submitted in this form; empty: it can.
std::string FirstDefect(const RunSpec& run);

}  // namespace plugins::launchers::slurm
