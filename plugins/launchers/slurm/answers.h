// What slurmrestd says (openapi v0.0.38, Slurm 22.05 to 23.11), as plain values. Pure.
//
// Strict in what is used: a member that is missing or of another type than it should be refuses the whole
// answer, which then says nothing. What is not used is not looked at. Memory is in MiB.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace plugins::launchers::slurm {

// "gpu:h100:2(IDX:0-1)": of a node what it has, of a job what it holds on one node.
struct Gres {
  std::string name{};  // "gpu"
  std::string type{};  // "h100", or empty
  uint32_t count = 0;
  std::vector<uint8_t> places{};  // which of the node's, where it is said
  friend bool operator==(const Gres&, const Gres&) = default;
};

enum class JobState : uint8_t {
  kPending,
  kRunning,
  kSuspended,
  kCompleting,  // is over, but its processes are not all gone, and what it held is not free
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,
  kOutOfMemory,
  kNodeFail,
  kPreempted,
  kBootFail,
  kDeadline,
  kOther,  // a word that is not known
};

// Whether it has processes, or may have some.
bool HoldsDevices(JobState state);
// Whether it will never run again.
bool IsOver(JobState state);

struct Job {
  uint32_t id = 0;
  std::string name{};
  std::string user{};
  std::string partition{};
  std::string qos{};
  std::string comment{};
  JobState state = JobState::kOther;
  std::string state_word{};               // as Slurm writes it
  std::string reason{};                   // "Resources", "NonZeroExitCode"; "None"
  std::vector<std::string> nodes{};       // that it has; none while it waits
  std::vector<std::vector<Gres>> gres{};  // on each of them, while it has it
  uint32_t cpus = 0;                      // on all of them together
  int64_t memory_mib = 0;                 // likewise
  uint32_t restarts = 0;                  // that Slurm itself has made
  int32_t wait_status = 0;                // as waitpid tells it
  conf::TimePoint submitted{};
  conf::TimePoint started{};
  conf::TimePoint ended{};                // of one that is over
  std::optional<conf::TimePoint> ends{};  // at the latest
};

struct Node {
  std::string name{};
  std::string address{};
  uint16_t port = 0;                 // of its slurmd; 0: not told
  std::string state{};               // "idle", "mixed", "allocated", "down", ...
  std::vector<std::string> flags{};  // "DRAIN", "NOT_RESPONDING", ...
  std::string reason{};              // why an operator or Slurm took it out
  std::vector<std::string> partitions{};
  std::vector<Gres> gres{};
  uint32_t cpus = 0;
  int64_t memory_mib = 0;
};

struct JobList {
  std::vector<Job> jobs{};
  int64_t latest = 0;  // Unix seconds: the clock of Slurm stood there at least when it answered
};

// Errors: DataLoss for what is not an answer of this kind; what the answer itself reports, by ErrorOf().
absl::StatusOr<JobList> ReadJobs(std::string_view body);
absl::StatusOr<std::vector<Node>> ReadNodes(std::string_view body);
absl::StatusOr<uint32_t> ReadSubmitted(std::string_view body);

// The first error that an answer reports: InvalidArgument for what Slurm will never take as it stands,
// NotFound for a job that it does not know, PermissionDenied, FailedPrecondition for a job that is over, and
// Unavailable for the rest. OK where there is none; DataLoss where it is no answer.
absl::Status ErrorOf(std::string_view body);

// "gpu:h100:2(IDX:0-1),npu:910b:8(S:0-1)"; "(null)" and nothing are no devices.
absl::StatusOr<std::vector<Gres>> ReadGres(std::string_view text);

}  // namespace plugins::launchers::slurm
