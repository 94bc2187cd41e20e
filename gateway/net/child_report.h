// What a process tells its maker between the fork and the program that it runs. Shared with `tidegate-run`,
// which is a small C program in all but name: nothing but plain values here.
#pragma once

namespace gateway::net {

enum class ChildStep : int { kHeld, kSession, kFiles, kDirectory, kExec, kWrapped };

struct ChildReport {
  ChildStep step;
  int value;  // kHeld: the pid; else an errno
};

// Of a process that HeldChild starts: the end of a pipe that takes its reports. Closed when its program runs,
// unless ChildSpec::reports says that the program goes on reporting.
inline constexpr int kChildReportFd = 4;

}  // namespace gateway::net
