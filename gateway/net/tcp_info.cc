#include "gateway/net/tcp_info.h"

#include <linux/tcp.h>  // knows more fields than libc's, and cannot stand beside it
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace gateway::net {

uint64_t AcknowledgedBytes(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_acked : 0;
}

bool HasPeerEnded(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0;  // errors and hang-ups are always reported
}

}  // namespace gateway::net
