// ZeroMQ sockets on a loop: libzmq's own threads do the network, the loop waits for their readiness, and
// messages are taken on the loop's thread, a bounded number at a time.
//
// Nothing here blocks: a message that cannot be sent now is not sent. Memory is bounded by `max_queued`
// messages of `max_message_bytes` a peer. libzmq reconnects to a lost peer with back-off, unless the peer was
// dropped for its messages (not ZeroMQ, or longer than max_message_bytes); a peer that does not answer for
// `kSilence` is lost. Owner: its maker, on the loop's thread; callbacks may destroy it. It must be destroyed
// before the loop ends and before its context.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/net/loop.h"

namespace gateway::net {

class ZmqContext {
 public:
  ZmqContext();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

class ZmqSocket {
 public:
  enum class Kind : uint8_t { kSub, kDealer, kPub, kRouter };
  static constexpr conf::Duration kSilence = std::chrono::seconds(5);

  struct Options {
    Kind kind = Kind::kSub;
    std::string url;      // tcp://HOST:PORT
    bool bind = false;    // else connect
    std::string topic{};  // of kSub
    int max_queued = 32;
    size_t max_message_bytes = size_t{4} << 20;
  };
  using OnMessage = std::function<void(std::span<const std::string_view> frames)>;
  using OnLink = std::function<void(bool up)>;  // a peer has connected, or is gone

  static absl::StatusOr<std::unique_ptr<ZmqSocket>> Open(Loop& loop, ZmqContext& context,
                                                         const Options& options, OnMessage on_message,
                                                         OnLink on_link = nullptr);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  // One message, whole or not at all: false when there is no peer, or no room.
  bool Send(std::span<const std::string_view> frames);
  bool Send(std::initializer_list<std::string_view> frames) { return Send({frames.begin(), frames.size()}); }

  std::string endpoint() const;  // the bound address, with its port

 private:
  struct Core;
  explicit ZmqSocket(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  std::shared_ptr<Core> core_;
};

}  // namespace gateway::net
