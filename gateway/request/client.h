// Client: the client's side of one request: its connection, whether it has left, and the operations that end
// when it leaves.
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
  // False for HTTP/1.0, which has no chunked coding.
  bool knows_chunks() const { return head().version >= 11; }

  // When the client leaves, this aborts the operation that the request waits for, ...
  CancelScope& cancel() { return cancel_; }
  // ... and this the operation that runs beside it; null: none.
  void SetBeside(CancelScope* beside) { beside_ = beside; }

  bool gone() const { return cancel_.cancelled(); }
  void MarkGone() { cancel_.MarkCancelled(); }
  // From now on, Leave() is called as soon as the client leaves.
  void Watch() {
    connection_.WatchPeer([this] { Leave(); });
  }
  // The client has left: aborts the running operations. May destroy this.
  void Leave();

  // Whether the connection may carry another request after this one.
  void SetReusable(bool reusable) { reusable_ = reusable; }
  // Without chunked coding, the end of the connection is the end of a stream. A body that was not read also
  // ends the connection.
  bool KeepsConnection(bool stream_begun) const {
    return reusable_ && head().keep_alive && connection_.body_read() && (knows_chunks() || !stream_begun);
  }

 private:
  net::http::ServerConnection& connection_;
  CancelScope cancel_;
  CancelScope* beside_ = nullptr;
  bool reusable_ = true;
};

// ClientPoll: checks regularly whether the client is still connected, while bytes of a form are written to the
// replica. A pending read would not notice the end of the client's stream, which comes after unread bytes.
//
// Lives in the frame that waits for the write.
class ClientPoll final : private net::Alarm {
 public:
  ClientPoll(net::Watchdog& watchdog, Client& client);

 private:
  void OnAlarm() override;
  Client& client_;
};

}  // namespace gateway
