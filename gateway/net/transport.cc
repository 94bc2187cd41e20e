#include "gateway/net/transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <string_view>

#include "gateway/net/draining_read.h"
#include "gateway/net/resolver.h"
#include "gateway/net/resource_owner.h"
#include "gateway/net/tcp_info.h"

namespace gateway::net {
namespace {

using Executor = IoContext::executor_type;
using Tcp = asio::ip::tcp;
using Socket = TcpSocket;

void SetNoDelay(Socket& socket) {
  ErrorCode ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
}

struct Handler {
  Completion* done;
  void operator()(ErrorCode error, size_t bytes) const { done->Complete(error, bytes); }
};

// A view that Asio may copy cheaply: its composed operations hold their buffers by value.
struct BufferSpan {
  using value_type = ConstBuffer;
  using const_iterator = const ConstBuffer*;
  const ConstBuffer* first;
  const ConstBuffer* last;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
};

// Asio's own condition writes 64 KiB at a time, each with a trip through the loop.
struct WriteAll {
  static constexpr size_t kAtOnce = 16u << 20;
  size_t operator()(ErrorCode error, size_t) const { return error ? 0 : kAtOnce; }
};

ErrorCode LastError() {
  return {errno, boost::system::system_category()};
}

// A Unix socket connects at once or not at all. The reactor treats it like any other descriptor; calls for
// TCP alone (no-delay, acknowledged bytes) fail on it or return 0.
ErrorCode ConnectUnix(Socket& socket, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return asio::error::invalid_argument;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return LastError();
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const ErrorCode error = LastError();
    close(fd);
    return error;
  }
  ErrorCode error;
  socket.assign(Tcp::v4(), fd, error);
  if (error) close(fd);
  return error;
}

class PlainStream final : public Stream {
 public:
  PlainStream(Socket socket, std::string peer)
      : socket_(std::move(socket)),
        read_(socket_),
        batch_(WriteBatch::Of(socket_.get_executor().context())),
        peer_(std::move(peer)) {
    SetNoDelay(socket_);
  }

  void AsyncRead(MutableBuffer into, Completion& done) override { read_.Start(into, done); }

  void AsyncWrite(std::span<const ConstBuffer> from, Completion& done) override {
    asio::async_write(socket_, BufferSpan{from.data(), from.data() + from.size()}, WriteAll(),
                      Handler{&done});
  }

  IoResult TryWrite(std::span<const ConstBuffer> from) override {
    std::array<iovec, kMaxBuffers> parts;
    for (size_t i = 0; i < from.size(); ++i) {
      parts[i] = {const_cast<void*>(from[i].data()), from[i].size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = from.size();
    const ssize_t n = sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {{}, static_cast<size_t>(n)};
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
    return {LastError(), 0};
  }

  WriteBatch* batch() override { return &batch_; }

  uint64_t Acknowledged() override { return AcknowledgedBytes(socket_.native_handle()); }

  bool HasPeerEnded() override { return net::HasPeerEnded(socket_.native_handle()); }

  bool IsQuiet() override {
    char byte;
    const ssize_t n = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

  void Close() override {
    ErrorCode ignored;
    socket_.close(ignored);
  }

  void ResetOnClose() override {
    ErrorCode ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    reset_ = true;
  }

  void EndWriting() override {
    ErrorCode ignored;
    if (!reset_) socket_.shutdown(Socket::shutdown_send, ignored);
  }

  const std::string& PeerAddress() const override { return peer_; }

 private:
  ReactorSocket socket_;
  DrainingRead read_;
  WriteBatch& batch_;
  const std::string peer_;
  bool reset_ = false;
};

class TlsStream final : public Stream {
 public:
  using Ssl = asio::ssl::stream<Socket>;

  TlsStream(Socket socket, std::string peer, std::shared_ptr<const TlsContext> context)
      : context_(std::move(context)), ssl_(std::move(socket), Borrow()), peer_(std::move(peer)) {
    SetNoDelay(ssl_.next_layer());
  }

  Ssl& ssl() { return ssl_; }

  void AsyncRead(MutableBuffer into, Completion& done) override {
    ssl_.async_read_some(into, Handler{&done});
  }

  void AsyncWrite(std::span<const ConstBuffer> from, Completion& done) override {
    asio::async_write(ssl_, BufferSpan{from.data(), from.data() + from.size()}, Handler{&done});
  }

  IoResult TryWrite(std::span<const ConstBuffer>) override { return {}; }

  uint64_t Acknowledged() override { return AcknowledgedBytes(ssl_.next_layer().native_handle()); }

  bool HasPeerEnded() override { return net::HasPeerEnded(ssl_.next_layer().native_handle()); }

  bool IsQuiet() override {
    // Asio may have read more than one record: the other bytes are in the BIO. A session ticket among them is consumed here
    // and has no meaning.
    char byte;
    SSL* const ssl = ssl_.native_handle();
    if (BIO_ctrl_pending(SSL_get_rbio(ssl)) > 0 || SSL_pending(ssl) > 0) {
      ERR_clear_error();
      const int peeked = SSL_peek(ssl, &byte, 1);
      if (peeked > 0 || SSL_get_error(ssl, peeked) != SSL_ERROR_WANT_READ) return false;
    }
    const ssize_t n = recv(ssl_.next_layer().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

  void Close() override {
    // Asio's memory BIO sends close_notify only through an operation that would have to be waited for; HTTP's
    // own framing already shows the peer where a message ends.
    ErrorCode ignored;
    ssl_.next_layer().close(ignored);
  }

  void ResetOnClose() override {
    ErrorCode ignored;
    ssl_.next_layer().set_option(asio::socket_base::linger(true, 0), ignored);
    reset_ = true;
  }

  void EndWriting() override {
    ErrorCode ignored;
    if (!reset_) ssl_.next_layer().shutdown(Socket::shutdown_send, ignored);
  }

  const std::string& PeerAddress() const override { return peer_; }

  std::string PeerSubject() const override {
    X509* certificate = SSL_get0_peer_certificate(const_cast<Ssl&>(ssl_).native_handle());
    if (!certificate) return {};
    std::array<char, 512> name{};
    X509_NAME_oneline(X509_get_subject_name(certificate), name.data(), static_cast<int>(name.size()));
    return name.data();
  }

 private:
  // Asio takes ownership of the SSL_CTX handed to it, so it gets a reference of its own.
  asio::ssl::context& Borrow() {
    SSL_CTX_up_ref(context_->native());
    borrowed_.emplace(context_->native());
    return *borrowed_;
  }

  std::shared_ptr<const TlsContext> context_;
  std::optional<asio::ssl::context> borrowed_;
  Ssl ssl_;
  const std::string peer_;
  bool reset_ = false;
};

// Suspends for an Asio operation whose handler takes (ErrorCode, ...).
template <class Start>
class AsioAwaiter {
 public:
  explicit AsioAwaiter(Start start) : start_(std::move(start)) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    start_([this, waiter](ErrorCode error, auto&&...) {
      error_ = error;
      waiter.resume();
    });
  }
  ErrorCode await_resume() const noexcept { return error_; }

 private:
  Start start_;
  ErrorCode error_;
};

class Handshake final : private Alarm {
 public:
  Handshake(Watchdog& watchdog, TlsStream& stream) : Alarm(watchdog), stream_(stream) {}
  Task<ErrorCode> Run(conf::Duration timeout) {
    SetAfter(timeout);
    const ErrorCode error = co_await AsioAwaiter([this](auto handler) {
      stream_.ssl().async_handshake(asio::ssl::stream_base::server, std::move(handler));
    });
    Clear();
    co_return error;
  }

 private:
  void OnAlarm() override { stream_.Close(); }
  TlsStream& stream_;
};

class TcpAcceptor final : public Acceptor {
 public:
  TcpAcceptor(IoContext& io, Watchdog& watchdog, TaskGroup& tasks, Options options, OnStream on_stream)
      : watchdog_(watchdog),
        tasks_(tasks),
        options_(std::move(options)),
        on_stream_(std::move(on_stream)),
        acceptor_(io),
        retry_(io) {}

  ~TcpAcceptor() override { Leave(); }

  absl::Status Open() {
    if (!options_.socket) {
      absl::StatusOr<std::shared_ptr<ListeningSocket>> own =
          ListeningSocket::Open(options_.address, options_.backlog);
      if (!own.ok()) return own.status();
      options_.socket = *std::move(own);
    }
    const int copy = fcntl(options_.socket->fd(), F_DUPFD_CLOEXEC, 0);
    Tcp::endpoint endpoint;
    auto size = static_cast<socklen_t>(endpoint.capacity());
    ErrorCode error;
    if (copy < 0 || getsockname(copy, endpoint.data(), &size) != 0) {
      error = ErrorCode(errno, boost::system::system_category());
    } else {
      acceptor_.assign(endpoint.protocol(), copy, error);
    }
    if (error) return absl::UnavailableError(fmt::format("cannot listen: {}", error.message()));
    member_ = options_.socket->Join([self = handed_, executor = acceptor_.get_executor(),
                                     protocol = endpoint.protocol()](Fd fd, std::string ip) {
      asio::post(executor, [self, executor, protocol, fd = std::move(fd), ip = std::move(ip)]() mutable {
        if (self->acceptor == nullptr) return;  // it has been closed
        Socket socket(executor);
        ErrorCode failed;
        socket.assign(protocol, fd.Release(), failed);
        if (!failed) self->acceptor->Take(std::move(socket), std::move(ip));
      });
    });
    port_ = options_.socket->port();
    if (options_.accepts) tasks_.Spawn(Run());
    return absl::OkStatus();
  }

  uint16_t port() const override { return port_; }

  void Close() override {
    closed_ = true;
    Leave();
    ErrorCode ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    options_.socket.reset();  // the port is free when the last one has closed
  }

 private:
  // What others reach it by; its own thread alone looks inside.
  struct Handed {
    TcpAcceptor* acceptor;
  };

  void Leave() {
    handed_->acceptor = nullptr;
    if (member_ && options_.socket) options_.socket->Leave(*member_);
    member_.reset();
  }

  Task<void> Run() {
    while (!closed_) {
      Socket socket(acceptor_.get_executor());
      Tcp::endpoint peer;  // from accept(): a peer that has reset its connection by now has no name
      const ErrorCode error = co_await AsioAwaiter(
          [&](auto handler) { acceptor_.async_accept(socket, peer, std::move(handler)); });
      if (closed_) co_return;
      if (error) {
        // Most likely no descriptors or memory are left: some connections will end meanwhile.
        if (error != asio::error::connection_aborted) {
          retry_.expires_after(std::chrono::milliseconds(50));
          co_await AsioAwaiter([&](auto handler) { retry_.async_wait(std::move(handler)); });
        }
        continue;
      }
      std::string ip = peer.address().to_string();
      if (const ListeningSocket::Take take = options_.socket->Next(*member_)) {
        ErrorCode failed;
        take(Fd(socket.release(failed)), std::move(ip));
      } else {
        Take(std::move(socket), std::move(ip));
      }
    }
  }

  void Take(Socket socket, std::string ip) {
    if (options_.admit && !options_.admit(ip)) return;
    std::shared_ptr<const TlsContext> tls = options_.tls ? options_.tls() : nullptr;
    if (!tls) {
      on_stream_(std::make_unique<PlainStream>(std::move(socket), std::move(ip)));
    } else {
      tasks_.Spawn(
          Secure(std::make_unique<TlsStream>(std::move(socket), std::move(ip), std::move(tls)), on_stream_));
    }
  }

  Task<void> Secure(std::unique_ptr<TlsStream> stream, OnStream on_stream) {
    Handshake handshake(watchdog_, *stream);
    const ErrorCode error = co_await handshake.Run(options_.handshake_timeout);
    if (!error) {
      on_stream(std::move(stream));
    } else if (options_.on_end) {
      options_.on_end(stream->PeerAddress());
    }
  }

  Watchdog& watchdog_;
  TaskGroup& tasks_;
  Options options_;
  OnStream on_stream_;
  asio::basic_socket_acceptor<Tcp, Executor> acceptor_;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             Executor>
      retry_;
  const std::shared_ptr<Handed> handed_ = std::make_shared<Handed>(Handed{this});
  std::optional<size_t> member_;
  uint16_t port_ = 0;
  bool closed_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ListeningSocket>> ListeningSocket::Open(const std::string& address,
                                                                       int backlog) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos)
    return absl::InvalidArgumentError(fmt::format("listen address {}: no port", address));
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  ErrorCode error;
  const asio::ip::address ip = host.empty()
                                   ? asio::ip::address(asio::ip::address_v6::any())
                                   : asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) return absl::InvalidArgumentError(fmt::format("listen address {}: not an IP address", address));
  Tcp::endpoint endpoint(ip, static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  Fd socket(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      listen(socket.get(), backlog) != 0 || getsockname(socket.get(), endpoint.data(), &size) != 0) {
    const int failed = errno;
    std::string why = std::generic_category().message(failed);
    if (const std::string owner = failed == EADDRINUSE ? PortOwner(endpoint.port()) : ""; !owner.empty())
      why = fmt::format("the port is in use by {}; end that process, or listen on another port", owner);
    return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, why));
  }
  return std::shared_ptr<ListeningSocket>(new ListeningSocket(std::move(socket), endpoint.port()));
}

size_t ListeningSocket::Join(Take take) {
  const std::lock_guard lock(mutex_);
  members_.push_back(std::move(take));
  return members_.size() - 1;
}

void ListeningSocket::Leave(size_t member) {
  const std::lock_guard lock(mutex_);
  members_[member] = nullptr;
}

ListeningSocket::Take ListeningSocket::Next(size_t caller) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < members_.size(); ++i) {
    turn_ = (turn_ + 1) % members_.size();
    if (turn_ == caller) return nullptr;
    if (members_[turn_]) return members_[turn_];
  }
  return nullptr;
}

struct Connector::Impl {
  Impl(IoContext& io, Resolver& resolver) : name(resolver, io), socket(io) {}
  Resolver::Wait name;
  Socket socket;
  TlsStream* shaking = nullptr;
  bool aborted = false;
};

Connector::Connector(IoContext& io) : Connector(io, Resolver::OfProcess()) {}
Connector::Connector(IoContext& io, Resolver& resolver) : impl_(std::make_unique<Impl>(io, resolver)) {}
Connector::~Connector() = default;

void Connector::Abort() {
  impl_->aborted = true;
  impl_->name.Abort();
  ErrorCode ignored;
  impl_->socket.close(ignored);
  if (impl_->shaking) impl_->shaking->Close();
}

Task<ConnectResult> Connector::Connect(const Remote& remote) {
  Impl& impl = *impl_;
  ErrorCode error;
  Addresses addresses;
  const asio::ip::address literal = asio::ip::make_address(remote.host, error);
  if (!remote.socket.empty()) {
    error = ConnectUnix(impl.socket, remote.socket);
  } else if (!error) {
    addresses.push_back(literal);
  } else {
    Resolved found = co_await impl.name.Get(remote.host);
    if (impl.aborted) found.error = asio::error::operation_aborted;
    if (found.error) co_return ConnectResult{found.error, nullptr};
    addresses = std::move(found.addresses);
  }
  const auto port = static_cast<uint16_t>(std::atoi(remote.port.c_str()));
  for (const asio::ip::address& address : addresses) {
    const Tcp::endpoint endpoint(address, port);
    impl.socket.close(error);
    error =
        co_await AsioAwaiter([&](auto handler) { impl.socket.async_connect(endpoint, std::move(handler)); });
    if (impl.aborted) error = asio::error::operation_aborted;
    if (!error || impl.aborted) break;
  }
  if (error) co_return ConnectResult{error, nullptr};
  if (!remote.tls)
    co_return ConnectResult{{}, std::make_unique<PlainStream>(std::move(impl.socket), remote.host)};

  auto stream = std::make_unique<TlsStream>(std::move(impl.socket), remote.host, remote.tls);
  const std::string& name = remote.server_name.empty() ? remote.host : remote.server_name;
  SSL* ssl = stream->ssl().native_handle();
  asio::ip::make_address(name, error);
  const bool is_ip = !error;
  if (!is_ip) SSL_set_tlsext_host_name(ssl, name.c_str());
  if (remote.tls->verify()) {
    if (is_ip) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str());
    } else {
      SSL_set1_host(ssl, name.c_str());
    }
  }
  impl.shaking = stream.get();
  error = co_await AsioAwaiter([&](auto handler) {
    stream->ssl().async_handshake(asio::ssl::stream_base::client, std::move(handler));
  });
  impl.shaking = nullptr;
  if (impl.aborted) error = asio::error::operation_aborted;
  if (error) co_return ConnectResult{error, nullptr};
  co_return ConnectResult{{}, std::move(stream)};
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(IoContext& io, Watchdog& watchdog,
                                                           TaskGroup& tasks, Options options,
                                                           OnStream on_stream) {
  auto acceptor =
      std::make_unique<TcpAcceptor>(io, watchdog, tasks, std::move(options), std::move(on_stream));
  if (absl::Status opened = acceptor->Open(); !opened.ok()) return opened;
  return acceptor;
}

absl::StatusOr<std::pair<Fd, Fd>> ConnectedPair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return absl::UnavailableError(fmt::format("no connection inside the process: {}", LastError().message()));
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

absl::StatusOr<std::unique_ptr<Stream>> StreamOf(IoContext& io, Fd end, std::string peer) {
  Socket socket(io);
  ErrorCode error;
  socket.assign(Tcp::v4(), end.get(), error);
  if (error)
    return absl::UnavailableError(fmt::format("no connection inside the process: {}", error.message()));
  end.Release();
  return std::make_unique<PlainStream>(std::move(socket), std::move(peer));
}

bool PortIsFree(uint16_t port) {
  // Plain system calls: there is no loop here, and SO_REUSEADDR must be off.
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  close(fd);
  return free;
}

}  // namespace gateway::net
