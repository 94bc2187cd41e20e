// BodyDecoder: turns the framed bytes of one HTTP/1.x message body into payload, in place and sans-IO.
//
// Chunk extensions and trailers are dropped. A request's are checked first: its extensions may not outweigh
// its payload by much, and its trailers may not name fields that frame, route or authenticate a message.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "gateway/net/http/head.h"

namespace gateway::net::http {

// The longest name of a field that no trailer may have.
inline constexpr size_t kMaxForbiddenName = 19;

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
  // The rest of a body with a declared length.
  std::optional<uint64_t> remaining() const;

 private:
  enum class State : uint8_t {
    kSize,
    kSizeSpace,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,
    kTrailerName,
    kTrailerLine,
    kTrailerLf,
    kEndLf
  };

  size_t WholeSizeLine(const char* data, size_t n);
  bool DecodeByte(char c);
  bool EndSizeLine();
  bool TakeTrailerName(char c);
  Result DecodeChunked(char* data, size_t n);

  Framing framing_ = Framing::kNone;
  State state_ = State::kSize;
  bool done_ = true;
  bool strict_ = false;  // of a request
  uint8_t size_digits_ = 0;
  uint8_t name_size_ = 0;  // of this trailer's name, as far as it is kept
  uint16_t skipped_ = 0;   // bytes of this chunk's extensions, or of all trailers: each is bounded
  uint32_t excess_ = 0;    // bytes of extensions that no payload has paid for
  uint64_t left_ = 0;
  std::array<char, kMaxForbiddenName + 1> name_;
};

}  // namespace gateway::net::http
