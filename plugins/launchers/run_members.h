// The processes of a run: its first one, and all that it started, wherever they went.
//
// A process belongs to a run when it carries the run's mark in the environment with which it began, when it
// is in the session that the first process leads, or when it prints to the run's log and is in that session's
// process group. A session's number is only trusted while it cannot be another's: see `session_is_ours`.
// Reads /proc: blocks for milliseconds where there are thousands of processes; off the loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/net/process_handle.h"

namespace plugins::launchers {

// The mark, in the environment of all that a run starts.
inline constexpr std::string_view kRunIdName = "TIDEGATE_RUN_ID";
inline constexpr std::string_view kRunTokenName = "TIDEGATE_RUN_TOKEN";  // of the state directory

struct RunMark {
  std::string id{};
  std::string token{};
  std::string log{};  // its file
  pid_t leader = 0;
  uint64_t start_ticks = 0;  // nothing of it began before
  // The first process was seen by this gateway, so that its number was not another's since.
  bool session_is_ours = false;
};

struct Member {
  pid_t pid = 0;
  gateway::net::ProcessHandle process;
};

// Those that have not ended, in the order of their pids.
std::vector<Member> FindMembers(const RunMark& mark);

// NAME and value of what a process began with; empty when it has ended, is another user's, or wrote over it.
std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid);

}  // namespace plugins::launchers
