// RedisClient: commands to one Redis server over one connection, pipelined; it reconnects by itself.
//
// Each command has a hard time-out, from the call to its reply. RESP answers come in order, so a late one
// ends the connection with everything in flight. A breaker protects the callers:
//
// - closed: ready, or connecting with no failure behind it. Commands are sent, or queued until their
// time-out.
// - open: waiting to try again. Commands are refused at once.
// - half-open: connecting again. Commands are refused at once. It closes once AUTH, SELECT and PING are
//   answered, since a stopped server still accepts connections.
//
// Nothing is sent twice: a failed command may or may not have been executed.
//
// Owner: its maker; destroyed after Stop() has returned, or after the loop's tasks have ended.
// Thread: the loop's.
// Errors: kUnavailable (refused by the breaker, or the connection was lost), kDeadlineExceeded,
// kResourceExhausted (too much is queued). An error reply of the server is a reply of type kError: the server
// is alive.
#pragma once

#include <absl/status/statusor.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "gateway/net/redis_protocol.h"
#include "gateway/net/transport.h"

namespace gateway::net {

class RedisClient {
 public:
  struct Options {
    Remote remote;
    std::string username;  // empty: the default user
    std::string password;  // empty: no AUTH
    uint32_t database = 0;
    conf::Duration timeout = std::chrono::milliseconds(200);          // of a command
    conf::Duration connect_timeout = std::chrono::milliseconds(500);  // until PING is answered
    conf::Duration min_backoff = std::chrono::milliseconds(100);
    conf::Duration max_backoff = std::chrono::seconds(5);
    size_t max_pending_bytes = 4u << 20;  // of commands not answered yet
    size_t max_reply_bytes = 1u << 20;
    uint64_t seed = 1;  // of the back-off's jitter
  };

  enum class Breaker : uint8_t { kClosed, kOpen, kHalfOpen };

  struct State {
    Breaker breaker = Breaker::kClosed;
    bool connected = false;
    std::string reason;        // the last failure; empty while there was none since the last connection
    conf::TimePoint since;     // of the breaker's state
    conf::TimePoint retry_at;  // while open
    uint64_t connects = 0;     // connections made ready
    uint64_t failures = 0;     // attempts that failed and connections that were lost
    uint64_t commands = 0;     // answered
    uint64_t timeouts = 0;     // not answered in time
    uint64_t refused = 0;      // by the breaker
    uint64_t dropped = 0;      // too much was queued
  };

  using Reply = absl::StatusOr<RedisReply>;

  // Starts to connect at once.
  RedisClient(Loop& loop, Options options);
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Command("GET", key). A plain function that returns a task: inside a co_await expression, clang destroys the strings
  // of an initializer list twice.
  template <class... Words>
  Task<Reply> Command(Words&&... words) {
    RedisCommand command;
    command.reserve(sizeof...(words));
    (command.emplace_back(std::forward<Words>(words)), ...);
    return One(std::move(command));
  }
  // Sends all commands in one write; returns as many replies, in order.
  Task<std::vector<Reply>> Pipeline(std::vector<RedisCommand> commands);

  const State& state() const { return state_; }
  std::string address() const;

  // Fails pending commands and ends the connection, without waiting for its end.
  void Close();
  // Close(), and waits until the connection has ended. Call it once.
  Task<void> Stop();

 private:
  struct Batch {
    std::vector<Reply> replies;
    size_t waiting = 0;
    Event done;
  };
  struct Pending {
    Batch* batch;
    size_t index;
    size_t bytes;
    conf::TimePoint deadline;
  };
  class CallbackAlarm final : public Alarm {
   public:
    CallbackAlarm(Watchdog& watchdog, std::function<void()> fn) : Alarm(watchdog), fn_(std::move(fn)) {}

   private:
    void OnAlarm() override { fn_(); }
    std::function<void()> fn_;
  };

  Task<Reply> One(RedisCommand command);
  Task<void> Run();
  Task<void> KeepConnected();
  // Runs until the connection has ended; returns the reason.
  Task<absl::Status> Connection();
  Task<absl::Status> Shake();
  Task<absl::Status> Answer();
  Task<Reply> NextReply();
  Task<void> Send();

  void Flush();
  void Resolve(Reply reply);
  void FailPending(const absl::Status& why);
  void SetBreaker(Breaker breaker);
  void OnCommandAlarm();
  absl::Status Unavailable(std::string_view why) const;

  Loop& loop_;
  const Options options_;
  State state_;
  Backoff backoff_;
  bool closed_ = false;

  std::unique_ptr<Connector> connector_;  // while connecting
  std::unique_ptr<Stream> stream_;        // while connected
  std::unique_ptr<RedisReader> reader_;
  std::vector<char> in_;
  std::deque<Pending> pending_;  // oldest first; all have the same time-out, so the first is due first
  size_t pending_bytes_ = 0;
  std::string unsent_;
  std::string sending_;
  bool connect_late_ = false;
  bool command_late_ = false;
  uint64_t answered_here_ = 0;  // on this connection
  Event sent_;                  // set while nothing is being sent
  Event ended_;
  Sleep pause_;
  CallbackAlarm connect_alarm_;
  CallbackAlarm command_alarm_;
};

std::string_view BreakerName(RedisClient::Breaker breaker);  // "closed", "open", "half-open"

}  // namespace gateway::net
