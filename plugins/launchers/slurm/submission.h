// What slurmrestd is asked: the body of a submitted job, and the mark by which a gateway knows its own. Pure.
//
// A run is one batch job on one node that goes by the run's id. It is submitted as a singleton: of jobs with
// one name and user Slurm runs one at a time, so that a submission that was made twice, because its answer
// was lost, never runs twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers::slurm {

// In a job's comment, as JSON. A job is ours when the state is ours, and the user whom we submit as.
struct Mark {
  std::string state{};  // which gateway's: a name of its state that outlives the process
  std::string owner{};
  std::string tenant{};
  uint16_t port = 0;  // 0: none
  friend bool operator==(const Mark&, const Mark&) = default;
};
std::string Render(const Mark& mark);
// Nothing where the comment is anything else.
std::optional<Mark> ReadMark(std::string_view comment);

struct Submission {
  RunSpec run{};  // words with {port}, {node} and {id} as they came
  Mark mark{};
  std::string partition{};
  std::string account{};  // this and the next: empty, the user's own
  std::string qos{};
  std::string gres{};  // "gpu:h100:2", or empty
  uint32_t cpus = 1;
  int64_t memory_mib = 0;  // 0: the cluster's default
  std::string log{};       // empty: none is kept
};
std::string RenderBody(const Submission& submission);

// A shell script that becomes the command: nothing of the shell stays between Slurm and its first process.
std::string RenderScript(const std::vector<std::string>& command);

// `{port}`, `{node}` and `{id}` in a word.
std::string Substitute(std::string_view word, const RunSpec& run, uint16_t port);

// What can never be submitted as it stands; empty: nothing.
std::string FirstDefect(const RunSpec& run);

}  // namespace plugins::launchers::slurm
