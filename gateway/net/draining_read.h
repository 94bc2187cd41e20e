// DrainingRead: a read of a TCP socket that recognizes when it has emptied the socket.
//
// Asio tries every read before it waits. On a connection that was just read empty, that try is a wasted
// system call for each request and each event of a stream. A read that fills less than its room has emptied the
// socket; DrainingRead then makes the reactor wait at once. An end or a reset that came with the bytes is
// reported only once, so after such a report every read is tried; the reactor is made to ask epoll for ends, too.
// It is an operation of Asio's reactor and depends on its detail namespace, and on members that are private there:
// an explicit instantiation may name them.
//
// Owner: the stream; one read at a time, and none pending when it is destroyed. Thread: the shard's.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <boost/asio/detail/epoll_reactor.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstdint>

#include "gateway/net/stream.h"

namespace gateway::net {

using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, IoContext::executor_type>;

namespace detail {

using Reactor = asio::detail::epoll_reactor;
using Descriptor = Reactor::descriptor_state;

int EpollOf(Reactor& reactor);
uint32_t& EventsOf(Descriptor& descriptor);  // the events for which epoll waits
template <auto kEpoll, auto kEvents>
struct ReactorAccess {
  friend int EpollOf(Reactor& reactor) { return reactor.*kEpoll; }
  friend uint32_t& EventsOf(Descriptor& descriptor) { return descriptor.*kEvents; }
};
template struct ReactorAccess<&Reactor::epoll_fd_, &Descriptor::registered_events_>;

}  // namespace detail

// Reads the reactor's state of a socket.
class ReactorSocket final : public TcpSocket {
 public:
  explicit ReactorSocket(TcpSocket socket) : TcpSocket(std::move(socket)) {}

  auto& reactor_data() { return impl_.get_implementation().reactor_data_; }
  detail::Reactor& reactor() { return asio::use_service<detail::Reactor>(get_executor().context()); }

  // From now on, epoll reports the peer's end of its side together with the last bytes.
  void AskForEnds() {
    uint32_t& events = detail::EventsOf(*reactor_data());
    events |= EPOLLRDHUP;
    epoll_event event{.events = events, .data = {.ptr = reactor_data()}};
    epoll_ctl(detail::EpollOf(reactor()), EPOLL_CTL_MOD, native_handle(), &event);
  }

  // Whether epoll reported more than bytes the last time: an end, an error, or urgent data, at which reads stop.
  bool ReportedMore() {
    // The reactor's entry is an operation, in private; its events are kept where operations keep a result.
    const auto* entry = reinterpret_cast<const asio::detail::scheduler_operation*>(reactor_data());
    return (Result::Of(*entry) & (EPOLLRDHUP | EPOLLERR | EPOLLHUP | EPOLLPRI)) != 0;
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
      : reactor_op({}, &DrainingRead::Try, &DrainingRead::Done), socket_(socket), reactor_(socket.reactor()) {
    socket_.AskForEnds();
    ErrorCode ignored;
    socket_.native_non_blocking(true, ignored);
  }

  void Start(MutableBuffer into, Completion& done) {
    into_ = into;
    done_ = &done;
    ec_ = {};
    bytes_transferred_ = 0;
    reactor_.start_op(detail::Reactor::read_op, socket_.native_handle(), socket_.reactor_data(), this, true,
                      true);
  }

 private:
  static status Try(reactor_op* base) {
    auto* self = static_cast<DrainingRead*>(base);
    ssize_t n;
    do {
      n = recv(self->socket_.native_handle(), self->into_.data(), self->into_.size(), MSG_DONTWAIT);
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
    const bool filled = self->bytes_transferred_ == self->into_.size();
    return filled || self->socket_.ReportedMore() ? done : done_and_exhausted;
  }

  // Without an owner the reactor only drops what it holds.
  static void Done(void* owner, asio::detail::operation* base, const ErrorCode& /*error*/, size_t /*bytes*/) {
    auto* self = static_cast<DrainingRead*>(base);
    if (owner != nullptr) self->done_->Complete(self->ec_, self->bytes_transferred_);
  }

  ReactorSocket& socket_;
  detail::Reactor& reactor_;
  MutableBuffer into_;
  Completion* done_ = nullptr;
};

}  // namespace gateway::net
