// ServerConnection: one accepted connection: reads heads and bodies, writes answers, and notices in every
// phase when the client leaves.
//
// While a request is worked on, a read is pending on the socket: it is the first read of the next request,
// and it detects a disconnect. Bytes that a pipelining client sends ahead stay in the buffer until its turn.
//
// Owner: the coroutine that serves the connection. Thread: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "conf/time.h"
#include "gateway/net/buffer.h"
#include "gateway/net/http/body_decoder.h"
#include "gateway/net/http/body_room.h"
#include "gateway/net/http/head.h"
#include "gateway/net/loop.h"
#include "gateway/net/stream.h"

namespace gateway::net::http {

struct ConnectionLimits {
  HeadLimits head{};
  size_t body_bytes = 64u << 20;
  conf::Duration idle = std::chrono::seconds(75);         // between requests
  conf::Duration head_time = std::chrono::seconds(20);    // first byte to end of head
  conf::Duration body_time = std::chrono::seconds(120);   // spent waiting for one body, all pieces together
  conf::Duration write_stall = std::chrono::seconds(60);  // without progress of a write
};

class ServerConnection final : private Completion, private Alarm {
 public:
  ServerConnection(Loop& loop, std::unique_ptr<Stream> stream, const ConnectionLimits& limits);
  ~ServerConnection() override;

  enum class Status : uint8_t {
    kOk,
    kClosed,
    kTimedOut,
    kBadHead,
    kTooLarge,  // than the limit
    kNoRoom,    // for it now
    kMalformed
  };

  // The next request's head. kBadHead: bad_head() gives the reason; close the connection after the answer.
  Task<Status> ReadHead();
  const Head& head() const { return head_; }
  HeadError bad_head() const { return bad_head_; }
  size_t head_bytes() const { return head_bytes_; }
  // The answer must have no body. Known also of a head that was refused.
  bool is_head_request() const { return in_.view().starts_with("HEAD "); }

  // Whether the body takes no memory beyond the connection's own buffer.
  bool body_fits() const {
    return decoder_.done() ||
           (head_.content_length && head_bytes_ + *head_.content_length <= in_.size() + in_.space());
  }

  // Takes the body if all of it has come with the head, without a wait; true also if there is none.
  bool TakeBody(size_t limit);
  // The whole body, at most `limit` bytes, followed by Buffer::kPadding readable ones. Sends 100 Continue if
  // the client waits for it. The view lasts until EndRequest(). `room` is asked before memory beyond the
  // connection's own buffer is taken; null: there is room.
  Task<Status> ReadBody(size_t limit, BodyRoom* room = nullptr);
  std::string_view body() const { return body_view_; }
  // Frees a whole body that is no longer needed; body() is empty then.
  void DropBody();
  bool body_read() const { return decoder_.done(); }  // to its end, or there was none

  // The next piece of a body that is read piece by piece: empty at its end. Valid until the next call.
  Task<Status> ReadBodyPiece(std::string_view& piece);

  // From now until EndRequest(), `on_gone` is called once if the client leaves.
  void WatchPeer(std::function<void()> on_gone);
  bool peer_gone() const { return peer_gone_; }
  // Whether the client has left while its body is not completely read and no read is pending. A system call.
  bool HasPeerLeft() { return read_error_.failed() || stream_->HasPeerEnded(); }

  // co_await Write(buffers) -> IoResult. A client that takes nothing for write_stall is closed; a slow reader
  // is not, also while a body is read.
  auto Write(std::span<const ConstBuffer> from);
  auto Write(const ConstBuffer& from);

  // Forgets the request. False when the connection cannot carry another one, because its body was not read.
  bool EndRequest();

  // Ends this side, then reads and drops the client's bytes, up to a bound and a time, so that the client
  // reads the last answer before a close would reset it.
  Task<void> Linger();

  void Close() { stream_->Close(); }
  // The peer will see the close as an error, so that it does not take a cut answer for a whole one.
  void ResetOnClose() {
    reset_ = true;
    stream_->ResetOnClose();
  }
  // Closes and waits until nothing is pending; the last call before destruction.
  Task<void> Shutdown();
  Stream& stream() { return *stream_; }
  size_t buffered_bytes() const { return in_.capacity() + body_.capacity(); }
  // Payload and framing bytes of the current request so far.
  uint64_t request_bytes() const { return head_bytes_ + body_bytes_; }

 private:
  struct FillAwaiter;
  struct SendAwaiter;

  // Closes the connection when a write makes no progress. Checks now and then, so that a write costs no more
  // than a store; counts checks, not time, since a process that was stopped itself has checked only once.
  class StallAlarm final : public Alarm {
   public:
    StallAlarm(Watchdog& watchdog, ServerConnection& connection) : Alarm(watchdog), connection_(connection) {}
    void Begin();

   private:
    void OnAlarm() override;
    ServerConnection& connection_;
    int looks_ = -1;  // checks without progress; -1: before the first one
    uint64_t acknowledged_ = 0;
  };

  void Complete(ErrorCode error, size_t bytes) override;
  void OnAlarm() override;
  void StartRead(Buffer& into);
  FillAwaiter Fill(Buffer& into);
  Task<Status> ReadFramedBody(size_t limit, BodyRoom* room);
  Task<bool> SendContinue();
  void TakeAhead();
  void KeepExcess(std::string_view excess);

  std::unique_ptr<Stream> stream_;
  const ConnectionLimits& limits_;

  Buffer in_;
  Buffer body_;           // bodies that do not fit behind their head in in_
  std::string leftover_;  // of the next request, read together with such a body
  Buffer* reading_ = nullptr;
  char* read_at_ = nullptr;
  ErrorCode read_error_;
  std::coroutine_handle<> reader_;
  bool timed_out_ = false;
  StallAlarm stall_;

  Head head_;
  HeadError bad_head_ = HeadError::kNone;
  size_t head_bytes_ = 0;
  size_t scanned_ = 0;
  BodyDecoder decoder_;
  uint64_t body_bytes_ = 0;
  conf::Duration body_time_left_{};
  size_t in_place_ = 0;  // bytes of body that stand in in_ behind the head
  std::string_view body_view_;
  bool continue_sent_ = false;
  bool in_request_ = false;
  bool reset_ = false;

  std::function<void()> on_gone_;
  bool peer_gone_ = false;
};

struct ServerConnection::SendAwaiter {
  SendAwaiter(ServerConnection& connection, std::span<const ConstBuffer> from)
      : connection(connection), write(*connection.stream_, from) {}
  SendAwaiter(ServerConnection& connection, const ConstBuffer& from)
      : connection(connection), write(*connection.stream_, from) {}

  bool await_ready() { return write.await_ready(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    connection.stall_.Begin();
    write.await_suspend(waiter);
  }
  IoResult await_resume() {
    connection.stall_.Clear();
    return write.await_resume();
  }

  ServerConnection& connection;
  detail::WriteAwaiter write;
};

inline auto ServerConnection::Write(std::span<const ConstBuffer> from) {
  return SendAwaiter(*this, from);
}
inline auto ServerConnection::Write(const ConstBuffer& from) {
  return SendAwaiter(*this, from);
}

}  // namespace gateway::net::http
