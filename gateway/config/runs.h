// The section `scaling.runs`: the users of the processes of replicas and jobs on this machine, and how
// much of it each may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conf {
class Object;
}  // namespace conf

namespace gateway::config {

// The user that runs become where none is named and this machine has it.
inline constexpr char kDefaultRunUser[] = "tidegate-run";

struct Runs {
  std::string user;  // of the machine; empty: kDefaultRunUser, if there is one
  // Handed out to the jobs of tenants, each to one tenant at a time: names, or ranges as in
  // "tidegate-run-0..15".
  std::vector<std::string> users;
  bool same_user =
      false;  // jobs of tenants may be the gateway's own user, as all runs are where `user` is empty
  uint32_t processes = 8192;  // of each run, and of its user where it has no cgroup; threads count
  uint32_t open_files = 65536;
  uint32_t file_gib = 256;           // of each file that a run writes
  uint32_t log_mib = 64;             // of a run's log, and of the older part that is kept
  std::optional<uint32_t> logs_mib;  // of all logs together; absent: a quarter of their disk, at most 16 GiB
  std::string logs_dir;              // where logs lie; empty: in state_dir
};

// Each by itself, in their order; an entry that is no range stands for itself.
std::vector<std::string> RunUserNames(const std::vector<std::string>& entries);

void Bind(conf::Object& object, Runs& out);

}  // namespace gateway::config
