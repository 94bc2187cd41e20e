// Ends the process with a message when a mapped file fails: the disk reports an I/O error, or another program has
// truncated the file or made it immutable. The kernel then sends SIGBUS, after which the process cannot continue; the
// message names the file.
#pragma once

namespace gateway::net {

// From now on: "tidegate: PATH (mapped): ..." on standard error, and then the end by SIGBUS. Once, at the
// start of a program; children that exec are not concerned.
void ExplainBusErrors();

}  // namespace gateway::net
