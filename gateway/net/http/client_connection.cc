#include "gateway/net/http/client_connection.h"

#include <boost/asio/error.hpp>
#include <string_view>

namespace gateway::net::http {
namespace {

constexpr size_t kAnswerBuffer = 16 * 1024;
constexpr size_t kMinimumSpace = 4 * 1024;
constexpr int kMaxInterim = 16;  // 1xx answers before one final
constexpr std::string_view kProtocol = "HTTP/";

}  // namespace

ClientConnection::ClientConnection(Loop& loop, std::unique_ptr<Stream> stream)
    : Alarm(loop.watchdog), stream_(std::move(stream)), in_(kAnswerBuffer) {}

void ClientConnection::BeginExchange() {
  ++exchanges_;
  in_.Clear();
  head_bytes_ = 0;
  scanned_ = 0;
  answered_ = false;
  response_bytes_ = 0;
  decoder_ = BodyDecoder();
  content_.reset();
}

ClientConnection::Status ClientConnection::StatusOf(const ErrorCode& error) const {
  if (aborted_) return Status::kAborted;
  if (timed_out_) return Status::kTimedOut;
  return error ? Status::kClosed : Status::kOk;
}

void ClientConnection::MakeRoom() {
  if (in_.space() < kMinimumSpace) in_.Reserve(in_.size() + kAnswerBuffer);
}

Task<ClientConnection::Status> ClientConnection::ReadHead(const HeadLimits& limits, bool to_head_request) {
  int interim = 0;
  while (true) {
    const HeadResult parsed = ParseResponseHead(in_.view(), limits, scanned_, head_);
    if (parsed.state == HeadResult::State::kError) co_return Status::kMalformed;
    if (parsed.state == HeadResult::State::kDone) {
      scanned_ = 0;
      // Nobody asked for another protocol: what follows a 101 is no HTTP.
      if (head_.status < 100 || head_.status == 101 || head_.status > 599) co_return Status::kMalformed;
      if (head_.status < 200) {
        if (++interim > kMaxInterim) co_return Status::kMalformed;
        in_.Consume(parsed.consumed);
        continue;
      }
      head_bytes_ = parsed.consumed;
      keep_alive_ = head_.keep_alive;
      excess_ = false;
      decoder_ = BodyDecoder::ForResponse(head_, to_head_request);
      content_.reset();
      switch (ContentDecoder::CodingOf(head_.Find(FieldId::content_encoding))) {
        case ContentDecoder::Coding::kNone:
          break;
        case ContentDecoder::Coding::kDeflated:
          CopyHead();  // decoded bytes may need another buffer
          content_ = std::make_unique<ContentDecoder>();
          break;
        case ContentDecoder::Coding::kUnknown:
          co_return Status::kMalformed;
      }
      co_return DecodeFrom(head_bytes_);
    }
    MakeRoom();
    const IoResult read = co_await stream_->Read(in_.Space());
    if (!read) {
      const bool http = kProtocol.starts_with(in_.view().substr(0, kProtocol.size()));
      const Status status = StatusOf(read.error);
      co_return status == Status::kClosed && !http ? Status::kMalformed : status;
    }
    answered_ = true;
    response_bytes_ += read.bytes;
    in_.Commit(read.bytes);
  }
}

// Decodes the bytes in the buffer from raw_begin on, in place.
ClientConnection::Status ClientConnection::DecodeFrom(size_t raw_begin) {
  const size_t raw = in_.size() - raw_begin;
  if (decoder_.done()) {
    excess_ |= raw > 0;
    in_.Truncate(raw_begin);
    return Status::kOk;
  }
  const BodyDecoder::Result r = decoder_.Decode(in_.data() + raw_begin, raw);
  excess_ |= r.malformed || r.consumed < raw;
  in_.Truncate(raw_begin + r.payload);  // bytes before a malformed chunk stay valid
  if (content_ && DecodeContentFrom(raw_begin) != Status::kOk) return Status::kMalformed;
  return r.malformed ? Status::kMalformed : Status::kOk;
}

// Replaces the payload from `begin` on by what it decodes to.
ClientConnection::Status ClientConnection::DecodeContentFrom(size_t begin) {
  decoded_.clear();
  if (!content_->Decode(in_.view().substr(begin), decoded_)) return Status::kMalformed;
  in_.Truncate(begin);
  in_.Append(decoded_);
  return decoder_.done() && !content_->whole() ? Status::kClosed : Status::kOk;
}

void ClientConnection::KeepHead() {
  if (!decoder_.done() && head_bytes_ > 0 && !content_) CopyHead();
}

void ClientConnection::CopyHead() {
  const char* from = in_.data();
  kept_head_.assign(from, head_bytes_);
  const auto move = [&](std::string_view& view) {
    view = {kept_head_.data() + (view.data() - from), view.size()};
  };
  move(head_.reason);
  for (Field& field : head_.fields) {
    move(field.name);
    move(field.value);
  }
}

void ClientConnection::Take(size_t n) {
  if (head_bytes_ > 0) {
    in_.Consume(head_bytes_);
    head_bytes_ = 0;
  }
  in_.Consume(n);
}

void ClientConnection::ReadSomeAwaiter::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  read_ = true;
  connection_.Take(0);
  connection_.MakeRoom();
  if (until_) connection_.SetTimeoutAt(*until_);
  connection_.stream_->AsyncRead(connection_.in_.Space(), *this);
}

void ClientConnection::ReadSomeAwaiter::Complete(ErrorCode error, size_t bytes) {
  error_ = error;
  bytes_ = bytes;
  waiter_.resume();
}

ClientConnection::Status ClientConnection::ReadSomeAwaiter::await_resume() {
  if (!read_) return Status::kOk;
  if (until_) connection_.ClearTimeout();
  if (error_) {
    const Status status = connection_.StatusOf(error_);
    const bool orderly = error_ == asio::error::eof && status == Status::kClosed;
    return orderly && connection_.decoder_.OnEof() ? Status::kOk : status;
  }
  const size_t raw_begin = connection_.in_.size();
  connection_.response_bytes_ += bytes_;
  connection_.in_.Commit(bytes_);
  return connection_.DecodeFrom(raw_begin);
}

void ClientConnection::OnAlarm() {
  timed_out_ = true;
  stream_->Close();
}

void ClientConnection::Abort() {
  aborted_ = true;
  stream_->Close();
}

bool ClientConnection::EndExchange() {
  ClearTimeout();
  const bool whole = decoder_.done() && answered_ && !excess_ && !aborted_ && !timed_out_;
  return whole && keep_alive_ && decoder_.framing() != BodyDecoder::Framing::kUntilClose;
}

}  // namespace gateway::net::http
