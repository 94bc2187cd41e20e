// The jobs' own journal, server.state_dir/jobs.jsonl: what was handed in and how far each job has come, so
// that a process that comes after this one, killed at any point, knows what is its own.
//
// Append-only: a line is what one job has become, and the last line of a job counts; the file is written anew
// when it has grown to many times what it says. A last line that was cut off was never acknowledged and is
// passed over; any other damage is an error that names the line.
//
// Blocks on the disk: not on a loop's thread. One thread at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/jobs/job.h"
#include "gateway/ledger/files.h"
#include "scheduler/model.h"

namespace gateway::control {

// Lines, each with its newline. Nodes stand by their names.
std::string LineOf(const Submission& submission, uint64_t number);
std::string LineOf(const Job& job, const scheduler::Cluster& cluster);
std::string LineOfForgotten(std::string_view job);

struct KnownJobs {
  uint64_t last_number = 0;  // of a submission
  std::vector<Job> jobs;     // in the order in which they were handed in
  // A member on a node that the cluster does not have (any more) stands on node kNone.
};

// What a journal's text says. DataLoss: it is not what this writes; the message names the line.
absl::StatusOr<KnownJobs> ParseJobs(std::string_view text, const scheduler::Cluster& cluster);

// All of them as a journal that says nothing else.
std::string TextOf(const KnownJobs& known, const scheduler::Cluster& cluster);

class JobJournal {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  explicit JobJournal(std::string path) : path_(std::move(path)) {}

  // The whole text, without a line that was cut off; empty where there is no file.
  absl::StatusOr<std::string> Read() const;
  // On disk when it returns; what could not be written whole is taken back.
  absl::Status Append(std::string_view lines);
  // Whether it is worth writing anew.
  bool overgrown() const { return size_ > kRoomy && size_ > 8 * compact_; }
  absl::Status Replace(std::string_view text);

 private:
  static constexpr uint64_t kRoomy = 4 << 20;

  const std::string path_;
  ledger::Fd file_;
  uint64_t size_ = 0;
  uint64_t compact_ = 0;  // when it was last written anew
};

}  // namespace gateway::control
