// Subscriber: one engine's KV events, from its PUB socket, with what was missed from its replay socket.
//
// Connects, again every kReopen while there is no connection, and reports to its listener the batches in order, and
// when earlier events no longer count. A peer that cannot be reached, is silent, or hangs costs an idle socket; a
// replay that does not end within kReplayPatience is given up. A batch that cannot be decoded is counted, and reported
// as a loss of all earlier events.
//
// Loop's thread. The listener may not destroy it from within a call.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

#include "gateway/net/watchdog.h"
#include "gateway/net/zmq.h"
#include "plugins/kv_events/batch.h"
#include "plugins/kv_events/sequence.h"

namespace plugins::kv_events {

class Subscriber final : private Sequence::Sink, private gateway::net::Alarm {
 public:
  static constexpr conf::Duration kReplayPatience = std::chrono::seconds(5);
  static constexpr conf::Duration kReopen = std::chrono::seconds(10);

  struct Source {
    std::string url;     // tcp://HOST:PORT
    std::string replay;  // likewise; empty: there is none
    std::string topic;
    friend bool operator==(const Source&, const Source&) = default;
  };

  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnBatch(const Batch& batch) = 0;
    virtual void OnClear() = 0;                            // forget all earlier batches
    virtual void OnMalformed(const std::string& why) = 0;  // ... nor can be relied on
    virtual void OnState(Sequence::State state) = 0;
  };

  struct Counts {
    uint64_t batches = 0;
    uint64_t malformed = 0;
    uint64_t connects = 0;
    Sequence::Counts sequence;
  };

  static absl::StatusOr<std::unique_ptr<Subscriber>> Open(gateway::net::Loop& loop,
                                                          gateway::net::ZmqContext& context, Source source,
                                                          Listener& listener);

  const Source& source() const { return source_; }
  Sequence::State state() const { return sequence_.state(); }
  Counts counts() const;

 private:
  Subscriber(gateway::net::Loop& loop, gateway::net::ZmqContext& context, Source source, Listener& listener);
  absl::Status Connect();
  void OnMessage(std::span<const std::string_view> frames);
  void OnReplayMessage(std::span<const std::string_view> frames);
  void OnLink(bool up);
  void Apply(std::string_view payload) override;
  void Clear() override { listener_.OnClear(); }
  void AskReplay(uint64_t from) override;
  void OnAlarm() override;
  void Malformed(const std::string& why);
  void NotifyState();

  gateway::net::Loop& loop_;
  gateway::net::ZmqContext& context_;
  const Source source_;
  Listener& listener_;
  Sequence sequence_;
  Sequence::State told_ = Sequence::State::kDown;
  Counts counts_;
  std::unique_ptr<gateway::net::ZmqSocket> live_;
  std::unique_ptr<gateway::net::ZmqSocket> replay_;  // while an answer is waited for
};

}  // namespace plugins::kv_events
