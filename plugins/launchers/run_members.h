// The processes of a run: its first one, and all that it started, wherever they went.
//
// While the wrapper of a run lives, all of them descend from it. Without it, a process belongs to the run
// when it is in the run's cgroup, when it carries the run's mark in the environment with which it began, when
// it is in the session that the first process led, or when it prints to the run's log and is in that session.
// A session's number is trusted only while it cannot be another's: see `session_is_ours`. Reads /proc: blocks
// for milliseconds where there are thousands of processes; off the loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/net/process_handle.h"

namespace plugins::launchers {

struct RunMark {
  std::string id{};
  std::string token{};
  std::string log{};  // its file
  std::string cgroup{};
  pid_t wrapper = 0;         // one that lives; it is no member itself
  pid_t leader = 0;          // the first process
  uint64_t start_ticks = 0;  // nothing of the run began before
  // This gateway has seen the first process, so that its number was not another's since.
  bool session_is_ours = false;
  // Whom the run became. No other's process is believed what its environment says: anybody can write another
  // run's mark there. Absent: not known.
  std::optional<uid_t> user{};
};

struct Member {
  pid_t pid = 0;
  gateway::net::ProcessHandle process;
};

// The members that have not ended, in the order of their pids.
std::vector<Member> FindMembers(const RunMark& mark);

struct FoundWrapper {
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  gateway::net::ProcessHandle process;
  std::string record;  // from its environment
};
// The runs of a state directory that have processes, by id, with their wrappers where those live. `owner`:
// whose processes wrappers are, where runs are other users'.
std::map<std::string, std::optional<FoundWrapper>> FindRuns(const std::string& token,
                                                            std::optional<uid_t> owner = std::nullopt);

// Absent when the process has ended.
std::optional<uid_t> UidOf(pid_t pid);

// NAME and value of what a process began with; empty when it has ended, is another user's, or wrote over it.
std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid);
std::vector<std::string> CommandOf(pid_t pid);

}  // namespace plugins::launchers
