// DrainingRead: a read of a TCP socket that recognizes when it has emptied the socket.
//
// Asio tries every read before it waits. On a connection that was just read empty, that try is a wasted
// system call for each request and each event of a stream. This read asks the kernel along with the bytes
// whether more are waiting (TCP_INQ, which says yes after the peer's FIN), and tells the reactor to wait at
// once when none are. A reset that came with the bytes is reported only once, so after such a report every
// read is tried. It is an operation of Asio's reactor and depends on its detail namespace.
//
// Owner: the stream; one read at a time, and none pending when it is destroyed. Thread: the shard's.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <boost/asio/detail/reactor.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "gateway/net/stream.h"

namespace gateway::net {

using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, IoContext::executor_type>;

// Reads the reactor's state of a socket.
class ReactorSocket final : public TcpSocket {
 public:
  explicit ReactorSocket(TcpSocket socket) : TcpSocket(std::move(socket)) {}

  auto& reactor_data() { return impl_.get_implementation().reactor_data_; }

  // Whether epoll reported this socket as broken the last time; later events will be reported.
  bool ReportedBroken() {
    // The reactor's entry is an operation, in private; its events are kept where operations keep a result.
    const auto* entry = reinterpret_cast<const asio::detail::scheduler_operation*>(reactor_data());
    return (Result::Of(*entry) & (EPOLLERR | EPOLLHUP)) != 0;
  }

 private:
  struct Result final : asio::detail::scheduler_operation {
    static unsigned Of(const asio::detail::scheduler_operation& operation) {
      return operation.*(&Result::task_result_);
    }
  };
};

class DrainingRead final : private asio::detail::reactor_op {
 public:
  explicit DrainingRead(ReactorSocket& socket)
      : reactor_op({}, &DrainingRead::Try, &DrainingRead::Done),
        socket_(socket),
        reactor_(asio::use_service<asio::detail::reactor>(socket.get_executor().context())) {
    const int on = 1;
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INQ, &on, sizeof on);
    ErrorCode ignored;
    socket_.native_non_blocking(true, ignored);
  }

  void Start(MutableBuffer into, Completion& done) {
    into_ = into;
    done_ = &done;
    ec_ = {};
    bytes_transferred_ = 0;
    reactor_.start_op(asio::detail::reactor::read_op, socket_.native_handle(), socket_.reactor_data(), this,
                      true, true);
  }

 private:
  static status Try(reactor_op* base) {
    auto* self = static_cast<DrainingRead*>(base);
    iovec part{self->into_.data(), self->into_.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    do {
      n = recvmsg(self->socket_.native_handle(), &message, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return not_done;
    if (n < 0) {
      self->ec_.assign(errno, boost::system::system_category());
      return done;
    }
    if (n == 0) {
      self->ec_ = asio::error::eof;
      return done;
    }
    self->bytes_transferred_ = static_cast<size_t>(n);
    return Waiting(message) == 0 && !self->socket_.ReportedBroken() ? done_and_exhausted : done;
  }

  // Bytes that wait to be read; not 0 if the kernel does not say.
  static int Waiting(msghdr& message) {
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != IPPROTO_TCP || header->cmsg_type != TCP_CM_INQ) return 1;
    int waiting;
    std::memcpy(&waiting, CMSG_DATA(header), sizeof waiting);
    return waiting;
  }

  // Without an owner the reactor only drops what it holds.
  static void Done(void* owner, asio::detail::operation* base, const ErrorCode& /*error*/, size_t /*bytes*/) {
    auto* self = static_cast<DrainingRead*>(base);
    if (owner != nullptr) self->done_->Complete(self->ec_, self->bytes_transferred_);
  }

  ReactorSocket& socket_;
  asio::detail::reactor& reactor_;
  MutableBuffer into_;
  Completion* done_ = nullptr;
};

}  // namespace gateway::net
