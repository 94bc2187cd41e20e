// The reports of a process to its maker between the fork and the exec. Shared with `tidegate-run`, which
// avoids the C++ library: plain values only.
#pragma once

namespace gateway::net {

enum class ChildStep : int { kHeld, kSession, kFiles, kDirectory, kExec, kWrapped, kUser };

struct ChildReport {
  ChildStep step;
  int value;  // kHeld: the pid; else an errno
};

// In a process that HeldChild starts: the write end of a pipe for its reports. Closed when its program runs,
// unless ChildSpec::reports says that the program reports, too.
inline constexpr int kChildReportFd = 4;

}  // namespace gateway::net
