// RunUser: the user of a run on this machine, and what it may use of the machine.
//
// A run that is its gateway's user can read the gateway's files, memory and variables, and signal it. Another
// user can do none of that, if the program that starts runs has the rights to change users.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plugins::launchers {

struct RunUser {
  std::string name{};  // as configured
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // beside `gid`
  std::string home{};

  friend bool operator==(const RunUser&, const RunUser&) = default;
};

// A user of this machine, by name or number. NotFound: there is none of that name. InvalidArgument: root.
absl::StatusOr<RunUser> FindRunUser(const std::string& name);

// Whether this process may start others as other users, and find and end them.
bool MayChangeUsers();

// Limits of each run; 0: the system's own.
struct RunLimits {
  uint64_t processes = 0;   // of the run's user, threads included; of the run alone where it has a cgroup
  uint64_t open_files = 0;  // of each process
  uint64_t file_bytes = 0;  // of each file that it writes
  int64_t memory_mib = 0;   // where it has a cgroup that can limit memory
};

}  // namespace plugins::launchers
