// What ends the process when a mapped file fails under it: the disk gives an I/O error, or another program
// has truncated it or made it immutable. The kernel then sends SIGBUS, which cannot be handled; the message names the
// file.
#pragma once

namespace gateway::net {

// From now on: "tidegate: PATH (mapped): ..." on standard error, and then the end by SIGBUS. Once, at the
// start of a program; children that exec are not concerned.
void ExplainBusErrors();

}  // namespace gateway::net
