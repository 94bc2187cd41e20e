// BodyDecoder: turns the framed bytes of one HTTP/1.x message body into payload, in place and sans-IO.
#pragma once

#include <cstdint>
#include <optional>

#include "gateway/net/http/head.h"

namespace gateway::net::http {

class BodyDecoder {
 public:
  enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilClose };

  BodyDecoder() = default;
  static BodyDecoder ForRequest(const Head& head);
  static BodyDecoder ForResponse(const Head& head, bool to_head_request);

  struct Result {
    size_t payload;   // bytes of payload, moved to the front of the data given
    size_t consumed;  // framed bytes used; the rest belongs to what follows
    bool malformed;
  };

  // Decodes data[0, n). Payload is compacted to data[0, payload). Stops at the end of the message.
  Result Decode(char* data, size_t n);

  // The peer closed. True when that is the body's proper end.
  bool OnEof();

  bool done() const { return done_; }
  Framing framing() const { return framing_; }
  // What is left of a body with a declared length.
  std::optional<uint64_t> remaining() const;

 private:
  enum class State : uint8_t {
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,
    kTrailerLine,
    kTrailerLf,
    kEndLf
  };

  size_t WholeSizeLine(const char* data, size_t n);
  bool DecodeByte(char c);
  Result DecodeChunked(char* data, size_t n);

  Framing framing_ = Framing::kNone;
  State state_ = State::kSize;
  bool done_ = true;
  bool refuse_extensions_ = false;
  uint8_t size_digits_ = 0;
  uint16_t skipped_ = 0;  // bytes of this chunk's extensions, or of all trailers: each is bounded
  uint64_t left_ = 0;
};

}  // namespace gateway::net::http
