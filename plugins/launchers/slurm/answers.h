// The answers of slurmrestd (openapi v0.0.38, Slurm 22.05 to 23.11) as plain values. Pure.
//
// Strict in the members that are used: one that is missing or of another type refuses the whole answer. Other
// members are ignored. Memory is in MiB.
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

// "gpu:h100:2(IDX:0-1)": devices that a node has, or that a job holds on one node.
struct Gres {
  std::string name{};  // "gpu"
  std::string type{};  // "h100", or empty
  uint32_t count = 0;
  std::vector<uint8_t> places{};  // which of the node's, where Slurm says so
  friend bool operator==(const Gres&, const Gres&) = default;
};

enum class JobState : uint8_t {
  kPending,
  kRunning,
  kSuspended,
  kCompleting,  // over, but some of its processes are left, and its devices are not free
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,
  kOutOfMemory,
  kNodeFail,
  kPreempted,
  kBootFail,
  kDeadline,
  kOther,  // an unknown word
};

// Whether a job in this state has processes, or may have some.
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
  std::vector<std::string> nodes{};       // none while it waits
  std::vector<std::vector<Gres>> gres{};  // on each node, while the job holds it
  uint32_t cpus = 0;                      // on all nodes together
  int64_t memory_mib = 0;                 // likewise
  uint32_t restarts = 0;                  // by Slurm itself
  int32_t wait_status = 0;                // as waitpid tells it
  conf::TimePoint submitted{};
  conf::TimePoint started{};
  conf::TimePoint ended{};                // of a job that is over
  std::optional<conf::TimePoint> ends{};  // at the latest
};

struct Node {
  std::string name{};
  std::string address{};
  uint16_t port = 0;                 // of its slurmd; 0: not known
  std::string state{};               // "idle", "mixed", "allocated", "down", ...
  std::vector<std::string> flags{};  // "DRAIN", "NOT_RESPONDING", ...
  std::string reason{};              // why an operator or Slurm took it out
  std::vector<std::string> partitions{};
  std::vector<Gres> gres{};
  uint32_t cpus = 0;
  int64_t memory_mib = 0;
};

// The most hosts of all jobs in one answer together.
inline constexpr size_t kMaxHostsOfJobs = 1u << 20;

struct JobList {
  std::vector<Job> jobs{};
  int64_t latest = 0;  // Unix seconds: a time that Slurm's clock had reached when it answered
};

// Errors: DataLoss for a body that is no such answer; errors that the answer reports, by ErrorOf().
absl::StatusOr<JobList> ReadJobs(std::string_view body);
absl::StatusOr<std::vector<Node>> ReadNodes(std::string_view body);
absl::StatusOr<uint32_t> ReadSubmitted(std::string_view body);

// The first error that an answer reports: InvalidArgument for a request that Slurm will never accept in this form,
// NotFound for an unknown job, PermissionDenied, FailedPrecondition for a job that has ended, and Unavailable for all
// others. OK where it reports none; DataLoss where the body is no answer.
absl::Status ErrorOf(std::string_view body);

// "gpu:h100:2(IDX:0-1),npu:910b:8(S:0-1)"; "(null)" and an empty text are no devices.
absl::StatusOr<std::vector<Gres>> ReadGres(std::string_view text);

}  // namespace plugins::launchers::slurm
