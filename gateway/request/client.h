// Client: the client's side of one request: its connection, whether it has left, and what ends when it
// leaves.
//
// Owner: the exchange. Thread: its shard's.
#pragma once

#include "gateway/net/http/server_connection.h"
#include "gateway/net/watchdog.h"
#include "gateway/request/cancel_scope.h"

namespace gateway {

class Client {
 public:
  explicit Client(net::http::ServerConnection& connection) : connection_(connection) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  net::http::ServerConnection& connection() { return connection_; }
  const net::http::Head& head() const { return connection_.head(); }
  size_t head_bytes() const { return connection_.head_bytes(); }
  // HTTP/1.0 has no chunked coding.
  bool knows_chunks() const { return head().version >= 11; }

  // What the client's leaving aborts: the operation that the request waits for, ...
  CancelScope& cancel() { return cancel_; }
  // ... and one that runs beside it; null: none.
  void SetBeside(CancelScope* beside) { beside_ = beside; }

  bool gone() const { return cancel_.cancelled(); }
  void MarkGone() { cancel_.MarkCancelled(); }
  // From now on the client's leaving is noticed at once.
  void Watch() {
    connection_.WatchPeer([this] { Leave(); });
  }
  // The client has left: ends the running operations. May destroy this.
  void Leave();

  // Whether the connection may carry another request after this one.
  void SetReusable(bool reusable) { reusable_ = reusable; }
  // A stream to a client without chunked coding ends with its connection. So does a request whose body was
  // not read.
  bool KeepsConnection(bool stream_begun) const {
    return reusable_ && head().keep_alive && connection_.body_read() && (knows_chunks() || !stream_begun);
  }

 private:
  net::http::ServerConnection& connection_;
  CancelScope cancel_;
  CancelScope* beside_ = nullptr;
  bool reusable_ = true;
};

// ClientPoll: checks regularly whether the client is still connected, while a form's bytes wait for the
// replica. Unread bytes of the client stand before the end of its stream, so that no pending read would
// notice the end.
//
// Lives in the frame of the write that waits.
class ClientPoll final : private net::Alarm {
 public:
  ClientPoll(net::Watchdog& watchdog, Client& client);

 private:
  void OnAlarm() override;
  Client& client_;
};

}  // namespace gateway
