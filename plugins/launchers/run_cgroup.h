// The cgroup (v2) of a run: a process cannot leave it by itself, whatever session or environment it gives
// itself, so that all of a run is found and ended even when its wrapper was killed.
//
// Cgroups are made below the gateway's own, which needs root or a delegated subtree. Without that the wrapper
// alone holds a run together. Processes and memory are limited where controllers may be turned on: a cgroup
// that has processes of its own can give none to its children (and with pids turned on, its children could
// take no process at all). So the gateway has to be in a leaf of what was delegated to it, as systemd's
// DelegateSubgroup= has it; its runs are made beside that leaf then. Blocks: off the loop.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/run_user.h"

namespace plugins::launchers {

// The place of a process in the hierarchy.
struct CgroupPlace {
  std::string mount{};     // of cgroup2; empty: it is not mounted
  std::string own{};       // below it, with a leading '/'; empty: none
  bool delegated = false;  // the one above is its owner's to divide
};
CgroupPlace OwnCgroup();

// The folder for the runs of the state directory with this token, made if need be; empty: none may be made.
std::string OpenCgroups(std::string_view token, const CgroupPlace& place = OwnCgroup());

// In that folder. Empty: it could not be made.
std::string MakeRunCgroup(const std::string& cgroups, const std::string& id, const RunLimits& limits);
// Ids of those that have processes.
std::vector<std::string> PopulatedCgroups(const std::string& cgroups);

std::vector<pid_t> CgroupPids(const std::string& cgroup);
// SIGKILL to all of its processes at once. False: it is gone, or has no such file (Linux before 5.14).
bool KillCgroup(const std::string& cgroup);
// Removes the cgroup of a run that has ended; one that is gone is no error.
void RemoveCgroup(const std::string& cgroup);

}  // namespace plugins::launchers
