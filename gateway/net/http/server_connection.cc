#include "gateway/net/http/server_connection.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gateway/net/clock.h"

namespace gateway::net::http {
namespace {

constexpr size_t kRequestBuffer = 16 * 1024;
constexpr size_t kReadAhead = 64 * 1024;
// Most libraries send the whole body before they read: a client has the time for that until it falls silent.
constexpr size_t kLingerBytes = 64u << 20;
constexpr conf::Duration kLingerSilence = std::chrono::seconds(2);
constexpr conf::Duration kLingerTime = std::chrono::seconds(30);
constexpr int kLooks = 8;  // checks of a write during write_stall

}  // namespace

// Suspends until the pending read ends or the alarm fires. True when bytes came.
struct ServerConnection::FillAwaiter {
  ServerConnection& connection;
  bool await_ready() const noexcept { return connection.read_error_.failed(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { connection.reader_ = waiter; }
  bool await_resume() const noexcept { return !connection.read_error_.failed() && !connection.timed_out_; }
};

ServerConnection::ServerConnection(Loop& loop, std::unique_ptr<Stream> stream, const ConnectionLimits& limits)
    : Alarm(loop.watchdog),
      stream_(std::move(stream)),
      limits_(limits),
      in_(kRequestBuffer),
      stall_(loop.watchdog, *this) {}

ServerConnection::~ServerConnection() {
  if (reading_) std::abort();  // Shutdown() was not awaited
}

Task<void> ServerConnection::Shutdown() {
  on_gone_ = nullptr;
  Clear();
  stream_->Close();
  while (reading_) co_await FillAwaiter{*this};
}

void ServerConnection::Complete(ErrorCode error, size_t bytes) {
  Buffer* into = std::exchange(reading_, nullptr);
  if (error) {
    read_error_ = error;
  } else {
    // The buffer may have been emptied to its front since the read was started.
    if (bytes > into->space()) std::abort();
    char* back = into->data() + into->size();
    if (back != read_at_) std::memmove(back, read_at_, bytes);
    into->Commit(bytes);
  }
  if (reader_) {
    std::exchange(reader_, nullptr).resume();
  } else if (error) {
    peer_gone_ = true;
    if (on_gone_) std::exchange(on_gone_, nullptr)();
  } else if (into->space() > 0 && leftover_.empty()) {
    StartRead(*into);  // still watching; what a pipelining client sends ahead is bounded by the buffer
  }
}

void ServerConnection::OnAlarm() {
  timed_out_ = true;
  if (reader_) std::exchange(reader_, nullptr).resume();
}

void ServerConnection::StallAlarm::Begin() {
  looks_ = -1;
  SetAfter(connection_.limits_.write_stall / kLooks);
}

void ServerConnection::StallAlarm::OnAlarm() {
  const uint64_t acknowledged = connection_.stream_->Acknowledged();
  const bool taken = std::exchange(acknowledged_, acknowledged) != acknowledged;
  looks_ = taken ? 0 : looks_ + 1;
  if (looks_ == kLooks) return connection_.stream_->Close();
  SetAfter(connection_.limits_.write_stall / kLooks);
}

void ServerConnection::StartRead(Buffer& into) {
  reading_ = &into;
  const MutableBuffer space = into.Space();
  read_at_ = static_cast<char*>(space.data());
  stream_->AsyncRead(space, *this);
}

ServerConnection::FillAwaiter ServerConnection::Fill(Buffer& into) {
  if (!reading_ && !read_error_) StartRead(into);
  return FillAwaiter{*this};
}

Task<ServerConnection::Status> ServerConnection::ReadHead() {
  if (!leftover_.empty()) {
    in_.Append(leftover_);
    leftover_.clear();
  }
  if (in_.empty()) SetAfter(limits_.idle);
  bool began = false;
  while (true) {
    // RFC 9112: an empty line before a request line is skipped.
    while (scanned_ == 0 && in_.view().starts_with("\r\n")) in_.Consume(2);
    const HeadResult parsed = ParseRequestHead(in_.view(), limits_.head, scanned_, head_);
    if (parsed.state == HeadResult::State::kDone) {
      head_bytes_ = parsed.consumed;
      break;
    }
    if (parsed.state == HeadResult::State::kError) {
      bad_head_ = parsed.error;
      Clear();
      co_return Status::kBadHead;
    }
    if (!reading_)
      in_.Reserve(std::min(in_.size() + kRequestBuffer / 2, limits_.head.bytes + kRequestBuffer));
    // Only for an incomplete head: a complete one needs no look at the clock.
    if (!began && (!in_.empty() || !armed())) {
      began = true;
      SetAfter(limits_.head_time);
    }
    if (!co_await Fill(in_)) co_return timed_out_&& began ? Status::kTimedOut : Status::kClosed;
  }
  Clear();
  in_request_ = true;
  continue_sent_ = false;
  decoder_ = BodyDecoder::ForRequest(head_);
  body_bytes_ = 0;
  body_time_left_ = limits_.body_time;
  in_place_ = 0;
  body_view_ = {};
  co_return Status::kOk;
}

Task<bool> ServerConnection::SendContinue() {
  if (!head_.expect_continue || continue_sent_ || in_.size() > head_bytes_) co_return true;
  continue_sent_ = true;
  co_return static_cast<bool>(co_await Write(AsBuffer("HTTP/1.1 100 Continue\r\n\r\n")));
}

bool ServerConnection::TakeBody(size_t limit) {
  if (decoder_.done()) return true;
  const uint64_t length = head_.content_length.value_or(0);
  if (length > limit || !body_fits() || in_.size() < head_bytes_ + length) return false;
  const BodyDecoder::Result decoded = decoder_.Decode(in_.data() + head_bytes_, static_cast<size_t>(length));
  in_place_ = decoded.consumed;
  body_bytes_ = length;
  body_view_ = in_.view().substr(head_bytes_, static_cast<size_t>(length));
  return true;
}

Task<ServerConnection::Status> ServerConnection::ReadBody(size_t limit, BodyRoom* room) {
  if (TakeBody(limit)) co_return Status::kOk;
  if (head_.content_length.value_or(0) > limit) co_return Status::kTooLarge;
  if (body_fits()) {
    if (!co_await SendContinue()) co_return Status::kClosed;
    SetAfter(limits_.body_time);
    while (!TakeBody(limit)) {
      if (!co_await Fill(in_)) co_return timed_out_ ? Status::kTimedOut : Status::kClosed;
    }
    Clear();
    co_return Status::kOk;
  }
  co_return co_await ReadFramedBody(limit, room);
}

// Moves bytes behind the head, also those of a read that was pending since the last request, to body_.
void ServerConnection::TakeAhead() {
  body_.Append(in_.view().substr(head_bytes_));
  in_.Truncate(head_bytes_);
}

// Bytes behind a body belong to the next request. They go back behind the head where there is room, and a
// pending read continues behind them. Otherwise they wait, and nothing is read until they are taken.
void ServerConnection::KeepExcess(std::string_view excess) {
  if (excess.size() <= in_.space()) {
    in_.Append(excess);
  } else {
    leftover_.assign(excess);
  }
}

// Bodies that are chunked or do not fit behind their head: read into body_, decoded in place.
Task<ServerConnection::Status> ServerConnection::ReadFramedBody(size_t limit, BodyRoom* room) {
  size_t granted = static_cast<size_t>(std::min<uint64_t>(head_.content_length.value_or(kReadAhead), limit));
  if (room && !room->GrowTo(granted)) co_return Status::kNoRoom;
  if (!co_await SendContinue()) co_return Status::kClosed;
  body_.Clear();
  body_.Reserve(granted);
  TakeAhead();
  SetAfter(limits_.body_time);
  size_t decoded_to = 0;
  while (true) {
    const size_t raw = body_.size() - decoded_to;
    const BodyDecoder::Result r = decoder_.Decode(body_.data() + decoded_to, raw);
    if (r.malformed) co_return Status::kMalformed;
    if (decoder_.done()) KeepExcess({body_.data() + decoded_to + r.consumed, raw - r.consumed});
    decoded_to += r.payload;
    body_.Truncate(decoded_to);
    if (decoded_to > limit) co_return Status::kTooLarge;
    if (decoder_.done()) break;
    if (body_.size() + kReadAhead > granted && !head_.content_length) {
      granted = body_.size() + 2 * kReadAhead;
      if (room && !room->GrowTo(granted)) co_return Status::kNoRoom;
    }
    if (body_.space() < 4096) body_.Reserve(body_.size() + kReadAhead);
    if (!co_await Fill(body_)) co_return timed_out_ ? Status::kTimedOut : Status::kClosed;
    TakeAhead();
  }
  Clear();
  body_bytes_ = decoded_to;
  body_view_ = body_.view();
  co_return Status::kOk;
}

Task<ServerConnection::Status> ServerConnection::ReadBodyPiece(std::string_view& piece) {
  piece = {};
  if (decoder_.done()) co_return Status::kOk;
  if (!co_await SendContinue()) co_return Status::kClosed;
  body_.Clear();
  body_.Reserve(kReadAhead);
  TakeAhead();
  // Counts only the time of waiting for the client, not the time in which the pieces are processed.
  const conf::TimePoint began = Now();
  Set(began + body_time_left_);
  while (true) {
    const size_t raw = body_.size();
    const BodyDecoder::Result r = decoder_.Decode(body_.data(), raw);
    if (r.malformed) co_return Status::kMalformed;
    if (decoder_.done()) KeepExcess({body_.data() + r.consumed, raw - r.consumed});
    body_.Truncate(r.payload);
    if (r.payload > 0 || decoder_.done()) break;
    if (!co_await Fill(body_)) co_return timed_out_ ? Status::kTimedOut : Status::kClosed;
    TakeAhead();
  }
  Clear();
  body_time_left_ -= Now() - began;
  body_bytes_ += body_.size();
  piece = body_.view();
  co_return Status::kOk;
}

void ServerConnection::WatchPeer(std::function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  if (read_error_) {
    peer_gone_ = true;
    if (on_gone_) std::exchange(on_gone_, nullptr)();
  } else if (!reading_ && in_.space() > 0 && leftover_.empty()) {
    StartRead(in_);
  }
}

void ServerConnection::DropBody() {
  body_view_ = {};
  if (reading_ != &body_) body_.Release();
}

bool ServerConnection::EndRequest() {
  on_gone_ = nullptr;
  if (!in_request_) return false;
  in_request_ = false;
  const bool whole = decoder_.done();
  body_view_ = {};
  // A read that timed out is still pending, and its bytes go where it began.
  if (body_.capacity() > kReadAhead && reading_ != &body_) {
    body_.Release();
  } else {
    body_.Clear();
  }
  scanned_ = 0;
  in_.Consume(head_bytes_ + in_place_);
  return whole && head_.keep_alive && !read_error_;
}

Task<void> ServerConnection::Linger() {
  if (reset_) co_return;
  stream_->EndWriting();
  timed_out_ = false;
  in_.Clear();
  const conf::TimePoint until = Now() + kLingerTime;
  size_t dropped = 0;
  while (dropped < kLingerBytes) {
    if (!reading_) in_.Clear();
    Set(std::min(Now() + kLingerSilence, until));
    if (!co_await Fill(in_) || Now() >= until) break;
    dropped += in_.size();
  }
  Clear();
}

}  // namespace gateway::net::http
