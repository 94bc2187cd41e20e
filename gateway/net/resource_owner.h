// Which process of this machine has a port or a lock that this one wants, for messages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

namespace gateway::net {

// "process 4711 (tidegate)"; "a process of another user" where it may not be looked at; empty: nobody
// listens. Reads /proc: blocks for milliseconds.
std::string PortOwner(uint16_t port);
// Whether somebody listens there on TCP, and whether one of these processes does. Both at one look.
struct PortUse {
  bool taken = false;
  bool by_one_of_these = false;
};
PortUse LookAtPort(uint16_t port, std::span<const pid_t> processes);
// Of a lock by flock(); empty: nobody has it, or it cannot be told.
std::string LockOwner(const std::string& path);

}  // namespace gateway::net
