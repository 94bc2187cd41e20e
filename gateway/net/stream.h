// Stream: one connected byte stream, plain or TLS, behind one virtual interface.
//
// Owner: the holder of the unique_ptr; destroyed only when no operation is pending. Thread: the shard's.
// At most one read and one write at a time. Close() ends both with an error; it may be called at any time.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gateway/net/write_batch.h"

namespace gateway::net {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using ConstBuffer = asio::const_buffer;
using MutableBuffer = asio::mutable_buffer;
using IoContext = asio::io_context;

inline ConstBuffer AsBuffer(std::string_view s) {
  return {s.data(), s.size()};
}

struct IoResult {
  ErrorCode error;
  size_t bytes = 0;
  explicit operator bool() const { return !error; }
};

// Called when an operation has ended: from the shard's event loop, never inside the call that started the
// operation.
class Completion {
 public:
  virtual void Complete(ErrorCode error, size_t bytes) = 0;

 protected:
  ~Completion() = default;
};

class Stream {
 public:
  static constexpr size_t kMaxBuffers = 16;

  virtual ~Stream() = default;

  // At least one byte, or an error (asio::error::eof at the peer's orderly end).
  virtual void AsyncRead(MutableBuffer into, Completion& done) = 0;

  // All the bytes, or an error. At most kMaxBuffers buffers; they must live until the operation has ended.
  virtual void AsyncWrite(std::span<const ConstBuffer> from, Completion& done) = 0;

  // Writes as many bytes as possible without waiting; may be 0.
  virtual IoResult TryWrite(std::span<const ConstBuffer> from) = 0;

  // Bytes that the peer's host has acknowledged so far, with TLS framing: the number grows as long as the
  // peer reads. A system call.
  virtual uint64_t Acknowledged() = 0;

  // Whether the peer has ended its side, even behind bytes that are not read yet. A system call.
  virtual bool HasPeerEnded() = 0;

  // Whether an idle connection is still usable: nothing to read, and not closed by the peer.
  virtual bool IsQuiet() = 0;

  // Closes the socket; TLS sends its goodbye first if that does not wait.
  virtual void Close() = 0;

  // Sends RST instead of FIN at Close, so that the peer cannot take a cut answer for a whole one.
  virtual void ResetOnClose() = 0;

  // Sends FIN: nothing more will be written. Nothing after ResetOnClose().
  virtual void EndWriting() = 0;

  // The client's IP address of an accepted stream, else the requested host.
  virtual const std::string& PeerAddress() const = 0;
  // The subject of a verified client certificate, or empty.
  virtual std::string PeerSubject() const { return {}; }

  // The batch that its writes may wait for; null where there is none.
  virtual WriteBatch* batch() { return nullptr; }

  // co_await forms of the above.
  auto Read(MutableBuffer into);
  auto Write(std::span<const ConstBuffer> from);
  auto Write(const ConstBuffer& from);
  // co_await: until the writes of this turn of the loop are due. For those of which there are many.
  WriteBatch::Awaiter AwaitBatch() { return WriteBatch::Awaiter(batch()); }
};

namespace detail {

class ReadAwaiter final : public Completion {
 public:
  ReadAwaiter(Stream& stream, MutableBuffer into) : stream_(stream), into_(into) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    stream_.AsyncRead(into_, *this);
  }
  IoResult await_resume() const noexcept { return result_; }
  void Complete(ErrorCode error, size_t bytes) override {
    result_ = {error, bytes};
    waiter_.resume();
  }

 private:
  Stream& stream_;
  MutableBuffer into_;
  std::coroutine_handle<> waiter_;
  IoResult result_;
};

// Writes as much as the socket takes at once without a trip through the event loop, and waits only for the
// rest.
class WriteAwaiter final : public Completion {
 public:
  WriteAwaiter(Stream& stream, std::span<const ConstBuffer> from) : stream_(stream), from_(from) {}
  WriteAwaiter(Stream& stream, const ConstBuffer& one) : stream_(stream), one_(one), from_(&one_, 1) {}
  WriteAwaiter(const WriteAwaiter&) = delete;
  WriteAwaiter& operator=(const WriteAwaiter&) = delete;

  bool await_ready() {
    size_t total = 0;
    for (const ConstBuffer& b : from_) total += b.size();
    result_ = stream_.TryWrite(from_);
    if (result_.error || result_.bytes == total) return true;
    SkipWritten();
    return false;
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    stream_.AsyncWrite({rest_, rest_count_}, *this);
  }
  IoResult await_resume() const noexcept { return result_; }
  void Complete(ErrorCode error, size_t bytes) override {
    result_ = {error, result_.bytes + bytes};
    waiter_.resume();
  }

 private:
  void SkipWritten() {
    size_t skip = result_.bytes;
    for (const ConstBuffer& b : from_) {
      if (skip >= b.size()) {
        skip -= b.size();
      } else {
        rest_[rest_count_++] = b + skip;
        skip = 0;
      }
    }
  }

  Stream& stream_;
  ConstBuffer one_;
  std::span<const ConstBuffer> from_;
  std::coroutine_handle<> waiter_;
  IoResult result_;
  size_t rest_count_ = 0;
  ConstBuffer rest_[Stream::kMaxBuffers];
};

}  // namespace detail

inline auto Stream::Read(MutableBuffer into) {
  return detail::ReadAwaiter(*this, into);
}
inline auto Stream::Write(std::span<const ConstBuffer> from) {
  return detail::WriteAwaiter(*this, from);
}
inline auto Stream::Write(const ConstBuffer& from) {
  return detail::WriteAwaiter(*this, from);
}

}  // namespace gateway::net
