#include "gateway/net/zmq.h"

#include <fmt/format.h>
#include <zmq.h>

#include <array>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "conf/text.h"

namespace gateway::net {
namespace {

constexpr int kMessagesATurn = 64;
constexpr int kReconnectMs = 100;
constexpr int kMaxReconnectMs = 10'000;
constexpr int kGreetingMs = 5'000;
constexpr int kHeartbeatMs = 2'000;

int TypeOf(ZmqSocket::Kind kind) {
  switch (kind) {
    case ZmqSocket::Kind::kSub:
      return ZMQ_SUB;
    case ZmqSocket::Kind::kDealer:
      return ZMQ_DEALER;
    case ZmqSocket::Kind::kPub:
      return ZMQ_PUB;
    case ZmqSocket::Kind::kRouter:
      return ZMQ_ROUTER;
  }
  return ZMQ_SUB;
}

absl::Status ErrorOf(std::string_view what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, zmq_strerror(zmq_errno())));
}

struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Handle = std::unique_ptr<void, CloseSocket>;

bool Set(void* socket, int option, int value) {
  return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

// A message, received frame by frame.
class Frames {
 public:
  ~Frames() { Clear(); }

  bool Receive(void* socket) {
    Clear();
    int more = 1;
    while (more != 0) {
      zmq_msg_t& frame = *frames_.emplace_back(std::make_unique<zmq_msg_t>());
      zmq_msg_init(&frame);
      if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) return false;
      more = zmq_msg_more(&frame);
    }
    for (const auto& frame : frames_)
      views_.emplace_back(static_cast<const char*>(zmq_msg_data(frame.get())), zmq_msg_size(frame.get()));
    return true;
  }
  std::span<const std::string_view> views() const { return views_; }

 private:
  void Clear() {
    for (const auto& frame : frames_) zmq_msg_close(frame.get());
    frames_.clear();
    views_.clear();
  }

  std::vector<std::unique_ptr<zmq_msg_t>> frames_;
  std::vector<std::string_view> views_;
};

}  // namespace

ZmqContext::ZmqContext() : context_(zmq_ctx_new()) {}

ZmqContext::~ZmqContext() {
  zmq_ctx_term(context_);
}

// Shared state that callbacks keep alive while they destroy the socket. Its descriptors belong to libzmq:
// they only show when to look, and are never closed here.
struct ZmqSocket::Core : std::enable_shared_from_this<ZmqSocket::Core> {
  using Descriptor = asio::posix::basic_stream_descriptor<IoContext::executor_type>;

  explicit Core(Loop& l) : loop(l), readable(l.io), monitor_readable(l.io) {}

  absl::Status Watch(void* watched, Descriptor& descriptor) {
    int fd = -1;
    size_t size = sizeof fd;
    if (zmq_getsockopt(watched, ZMQ_FD, &fd, &size) != 0) return ErrorOf("no descriptor");
    ErrorCode error;
    descriptor.assign(fd, error);
    if (error) return absl::UnavailableError(error.message());
    Arm(descriptor);
    return absl::OkStatus();
  }

  void Arm(Descriptor& descriptor) {
    descriptor.async_wait(Descriptor::wait_read, [self = shared_from_this(), &descriptor](ErrorCode error) {
      if (error || self->closed) return;
      self->Drain();
      if (!self->closed) self->Arm(descriptor);
    });
  }

  // Readiness is reported once: messages that are not taken now need another look.
  void Drain() {
    if (draining) return;
    draining = true;
    DrainMonitor();
    Frames message;
    int taken = 0;
    while (!closed && taken < kMessagesATurn && message.Receive(socket.get())) {
      ++taken;
      on_message(message.views());
    }
    draining = false;
    if (!closed && taken == kMessagesATurn) DrainLater();
  }

  void DrainLater() {
    loop.Post([self = shared_from_this()] {
      if (!self->closed) self->Drain();
    });
  }

  void DrainMonitor() {
    Frames message;
    while (!closed && monitor && message.Receive(monitor.get())) {
      uint16_t event = 0;
      if (message.views().empty() || message.views()[0].size() < sizeof event) continue;
      std::memcpy(&event, message.views()[0].data(), sizeof event);
      on_link(event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    }
  }

  void Close() {
    closed = true;
    readable.release();
    if (monitor) {
      monitor_readable.release();
      zmq_socket_monitor(socket.get(), nullptr, 0);
    }
    monitor.reset();
    socket.reset();
  }

  Loop& loop;
  OnMessage on_message;
  OnLink on_link;
  Handle socket;
  Handle monitor;
  Descriptor readable;
  Descriptor monitor_readable;
  bool draining = false;
  bool closed = false;
};

absl::StatusOr<std::unique_ptr<ZmqSocket>> ZmqSocket::Open(Loop& loop, ZmqContext& context,
                                                           const Options& options, OnMessage on_message,
                                                           OnLink on_link) {
  auto core = std::make_shared<Core>(loop);
  core->on_message = std::move(on_message);
  core->on_link = std::move(on_link);
  core->socket.reset(zmq_socket(context.get(), TypeOf(options.kind)));
  if (!core->socket) return ErrorOf("no socket");
  void* const socket = core->socket.get();
  const auto silence = static_cast<int>(conf::ToSeconds(kSilence) * 1000);
  const int64_t max_bytes = static_cast<int64_t>(options.max_message_bytes);
  const bool set =
      Set(socket, ZMQ_LINGER, 0) && Set(socket, ZMQ_RCVHWM, options.max_queued) &&
      Set(socket, ZMQ_SNDHWM, options.max_queued) && Set(socket, ZMQ_RECONNECT_IVL, kReconnectMs) &&
      Set(socket, ZMQ_RECONNECT_IVL_MAX, kMaxReconnectMs) && Set(socket, ZMQ_HANDSHAKE_IVL, kGreetingMs) &&
      Set(socket, ZMQ_HEARTBEAT_IVL, kHeartbeatMs) && Set(socket, ZMQ_HEARTBEAT_TIMEOUT, silence) &&
      Set(socket, ZMQ_IPV6, 1) && zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes) == 0;
  if (!set) return ErrorOf("socket options");
  if (options.kind == Kind::kSub &&
      zmq_setsockopt(socket, ZMQ_SUBSCRIBE, options.topic.data(), options.topic.size()) != 0)
    return ErrorOf("topic");
  if (core->on_link) {
    const std::string inside = fmt::format("inproc://monitor-{}", socket);
    if (zmq_socket_monitor(socket, inside.c_str(), ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) !=
        0)
      return ErrorOf("monitor");
    core->monitor.reset(zmq_socket(context.get(), ZMQ_PAIR));
    if (!core->monitor || !Set(core->monitor.get(), ZMQ_LINGER, 0) ||
        zmq_connect(core->monitor.get(), inside.c_str()) != 0)
      return ErrorOf("monitor");
  }
  const int joined =
      options.bind ? zmq_bind(socket, options.url.c_str()) : zmq_connect(socket, options.url.c_str());
  if (joined != 0) return ErrorOf(options.url);
  if (absl::Status watched = core->Watch(socket, core->readable); !watched.ok()) return watched;
  std::unique_ptr<ZmqSocket> made(new ZmqSocket(core));
  if (core->monitor) {
    if (absl::Status watched = core->Watch(core->monitor.get(), core->monitor_readable); !watched.ok())
      return watched;
  }
  core->DrainLater();
  return made;
}

ZmqSocket::~ZmqSocket() {
  core_->Close();
}

bool ZmqSocket::Send(std::span<const std::string_view> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    if (zmq_send(core_->socket.get(), frames[i].data(), frames[i].size(), ZMQ_DONTWAIT | more) < 0)
      return false;
  }
  core_->DrainLater();
  return true;
}

std::string ZmqSocket::endpoint() const {
  std::array<char, 256> text{};
  size_t size = text.size();
  if (zmq_getsockopt(core_->socket.get(), ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) return {};
  return text.data();
}

}  // namespace gateway::net
