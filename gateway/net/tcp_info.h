// tcp_info: what the kernel knows of a TCP connection. A system call each; any thread.
#pragma once

#include <cstdint>

namespace gateway::net {

// Bytes that the peer's host has acknowledged so far; 0 where the kernel does not say.
uint64_t AcknowledgedBytes(int socket);

// Whether the peer has closed or reset the connection, even if earlier bytes are not read yet.
bool HasPeerEnded(int socket);

}  // namespace gateway::net
