// Which process of this machine has a port or a lock that this one wants, for messages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

namespace gateway::net {

// "process 4711 (tidegate)"; "another process" if it may not be examined; empty: none
// listens. Reads /proc: blocks for milliseconds.
std::string PortOwner(uint16_t port);
// Which processes would accept a connection to an address.
struct PortUse {
  bool taken = false;     // a process is seen to listen
  bool by_these = false;  // these processes alone do
};
// `host`: a number. Reads /proc: blocks for milliseconds.
PortUse CheckPort(const std::string& host, uint16_t port, std::span<const pid_t> processes);
// The process that holds a lock by flock(); empty where none does, or where it is not known.
std::string LockOwner(const std::string& path);

}  // namespace gateway::net
