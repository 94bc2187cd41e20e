// ClientConnection: one connection to a server, with one exchange at a time: writes the request, reads the
// head and the payload; the payload is always contiguous.
//
// Abort() may be called at any time: the pending operation ends with an error at once, and the connection is
// closed. Thread: the loop's. Destroyed only when nothing is pending.
#pragma once

#include <memory>
#include <optional>

#include "conf/time.h"
#include "gateway/net/buffer.h"
#include "gateway/net/http/body_decoder.h"
#include "gateway/net/http/content_decoder.h"
#include "gateway/net/http/head.h"
#include "gateway/net/loop.h"
#include "gateway/net/stream.h"
#include "gateway/net/transport.h"

namespace gateway::net::http {

class ClientConnection final : public Abortable, private Alarm {
 public:
  ClientConnection(Loop& loop, std::unique_ptr<Stream> stream);

  enum class Status : uint8_t {
    kOk,
    kClosed,     // the peer closed before the message was complete
    kMalformed,  // not HTTP
    kTimedOut,
    kAborted,  // by Abort()
  };

  // co_await Write(buffers) -> IoResult. StatusOf() gives the reason of a failure.
  auto Write(std::span<const ConstBuffer> from) { return stream_->Write(from); }
  Status StatusOf(const ErrorCode& error) const;

  // The response's head; interim 1xx answers are skipped, a 101 is malformed. Views last until the first
  // ReadSome().
  Task<Status> ReadHead(const HeadLimits& limits, bool to_head_request = false);
  const Head& head() const { return head_; }
  // Whether any byte of the response has come.
  bool answered() const { return answered_; }

  // Payload not yet taken.
  std::string_view payload() const { return in_.view().substr(head_bytes_); }
  char* payload_data() { return in_.data() + head_bytes_; }
  void Take(size_t n);
  // Keeps the head's views valid over ReadSome(), by a copy of its bytes.
  void KeepHead();
  bool done() const { return decoder_.done(); }
  // The payload was sent in a content coding, and is decoded here.
  bool coded() const { return content_ != nullptr; }

  // co_await ReadSome() -> Status: more payload, or done() turned true, or an error. Drops the head.
  class ReadSomeAwaiter;
  ReadSomeAwaiter ReadSome();
  // Ends the next read at `until`, with kTimedOut. Applies to one read: while its bytes go to a slow client,
  // the server's time does not run.
  ReadSomeAwaiter ReadSome(conf::TimePoint until);

  // Ends the pending operation with kTimedOut unless the deadline is cleared or moved first.
  void SetTimeoutAt(conf::TimePoint at) { Set(at); }
  void ClearTimeout() { Clear(); }

  void Abort() override;

  // Ends the exchange. True when the connection can carry another one.
  bool EndExchange();

  // Whether an idle connection is open and the server has sent nothing since its last answer; a system call.
  bool IsQuiet() { return stream_->IsQuiet(); }
  bool reused() const { return exchanges_ > 1; }
  void BeginExchange();
  conf::TimePoint idle_since() const { return idle_since_; }
  void set_idle_since(conf::TimePoint t) { idle_since_ = t; }
  uint64_t response_bytes() const { return response_bytes_; }
  Stream& stream() { return *stream_; }

 private:
  void OnAlarm() override;
  Status DecodeFrom(size_t raw_begin);
  Status DecodeContentFrom(size_t begin);
  void CopyHead();
  void MakeRoom();

  std::unique_ptr<Stream> stream_;
  Buffer in_;
  Head head_;
  size_t head_bytes_ = 0;
  std::string kept_head_;
  size_t scanned_ = 0;
  BodyDecoder decoder_;
  std::unique_ptr<ContentDecoder> content_;  // of an answer in a coding
  std::string decoded_;                      // a buffer
  bool keep_alive_ = false;
  bool excess_ = false;  // bytes behind the message's end
  bool answered_ = false;
  bool timed_out_ = false;
  bool aborted_ = false;
  uint32_t exchanges_ = 0;
  uint64_t response_bytes_ = 0;
  conf::TimePoint idle_since_{};
};

class ClientConnection::ReadSomeAwaiter final : private Completion {
 public:
  ReadSomeAwaiter(ClientConnection& connection, std::optional<conf::TimePoint> until)
      : connection_(connection), until_(until) {}
  bool await_ready() const noexcept { return connection_.decoder_.done(); }
  void await_suspend(std::coroutine_handle<> waiter);
  Status await_resume();

 private:
  void Complete(ErrorCode error, size_t bytes) override;

  ClientConnection& connection_;
  const std::optional<conf::TimePoint> until_;
  std::coroutine_handle<> waiter_;
  ErrorCode error_;
  size_t bytes_ = 0;
  bool read_ = false;
};

inline ClientConnection::ReadSomeAwaiter ClientConnection::ReadSome() {
  return {*this, std::nullopt};
}
inline ClientConnection::ReadSomeAwaiter ClientConnection::ReadSome(conf::TimePoint until) {
  return {*this, until};
}

}  // namespace gateway::net::http
