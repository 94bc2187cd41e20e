#include "gateway/net/http/body_decoder.h"

#include <algorithm>
#include <cstring>

#include "conf/hex.h"
#include "conf/text.h"

namespace gateway::net::http {
namespace {

constexpr uint16_t kMaxSkipped = 4096;
constexpr size_t kMaxSizeDigits = 15;
// The most bytes of chunk extensions of a request that its payload does not cover. A signature of 85 bytes for each 64
// KiB of payload is free.
constexpr uint32_t kMaxExcess = 16 * 1024;
constexpr uint64_t kFreePerChunk = 16;
constexpr uint64_t kPayloadPerFreeByte = 8;

// Fields that frame, route, describe or authenticate a message (RFC 9110, 6.5.1): an intermediary that merged
// such a trailer into the head would see another message than the gateway.
constexpr std::string_view kForbidden[] = {"te",
                                           "host",
                                           "range",
                                           "cookie",
                                           "expect",
                                           "trailer",
                                           "upgrade",
                                           "connection",
                                           "keep-alive",
                                           "set-cookie",
                                           "api-key",
                                           "x-api-key",
                                           "content-type",
                                           "content-range",
                                           "cache-control",
                                           "max-forwards",
                                           "authorization",
                                           "content-length",
                                           "content-encoding",
                                           "transfer-encoding",
                                           "proxy-authenticate",
                                           "proxy-authorization"};

static_assert([] {
  for (const std::string_view name : kForbidden) {
    if (name.size() > kMaxForbiddenName) return false;
  }
  return true;
}());

bool IsForbidden(std::string_view name) {
  for (const std::string_view forbidden : kForbidden) {
    if (forbidden.size() == name.size() && conf::EqualsIgnoreCase(forbidden, name)) return true;
  }
  return false;
}

bool IsTokenChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsControl(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

}  // namespace

BodyDecoder BodyDecoder::ForRequest(const Head& head) {
  BodyDecoder d;
  d.strict_ = true;
  if (head.chunked) {
    d.framing_ = Framing::kChunked;
    d.done_ = false;
  } else if (head.content_length.value_or(0) > 0) {
    d.framing_ = Framing::kLength;
    d.left_ = *head.content_length;
    d.done_ = false;
  }
  return d;
}

BodyDecoder BodyDecoder::ForResponse(const Head& head, bool to_head_request) {
  if (!ResponseHasBody(head, to_head_request)) return {};
  BodyDecoder d = ForRequest(head);
  d.strict_ = false;
  if (!head.chunked && !head.content_length) {
    d.framing_ = Framing::kUntilClose;
    d.done_ = false;
  }
  return d;
}

std::optional<uint64_t> BodyDecoder::remaining() const {
  return framing_ == Framing::kLength ? std::optional(left_) : std::nullopt;
}

BodyDecoder::Result BodyDecoder::Decode(char* data, size_t n) {
  if (done_) return {0, 0, false};
  switch (framing_) {
    case Framing::kNone:
      return {0, 0, false};
    case Framing::kLength: {
      const size_t take = static_cast<size_t>(std::min<uint64_t>(left_, n));
      left_ -= take;
      done_ = left_ == 0;
      return {take, take, false};
    }
    case Framing::kUntilClose:
      return {n, n, false};
    case Framing::kChunked:
      return DecodeChunked(data, n);
  }
  return {0, 0, true};
}

BodyDecoder::Result BodyDecoder::DecodeChunked(char* data, size_t n) {
  size_t out = 0;
  size_t at = 0;
  while (at < n && !done_) {
    if (state_ == State::kData) {
      const size_t take = static_cast<size_t>(std::min<uint64_t>(left_, n - at));
      if (out != at) std::memmove(data + out, data + at, take);
      out += take;
      at += take;
      left_ -= take;
      if (left_ == 0) state_ = State::kDataCr;
    } else if (const size_t line = WholeSizeLine(data + at, n - at); line > 0) {
      at += line;
    } else if (!DecodeByte(data[at++])) {
      return {out, at, true};
    }
  }
  return {out, at, false};
}

// The size line of a chunk, with the line end of the chunk before it, if all of it is in the data and has no
// extension: its length, or 0. Byte by byte it would take as long as the rest of a short chunk.
size_t BodyDecoder::WholeSizeLine(const char* data, size_t n) {
  size_t at = 0;
  if (state_ == State::kDataCr) {
    if (n < 2 || data[0] != '\r' || data[1] != '\n') return 0;
    at = 2;
  } else if (state_ != State::kSize || size_digits_ > 0) {
    return 0;
  }
  uint64_t size = 0;
  const size_t begin = at;
  for (; at < n; ++at) {
    const int digit = conf::HexDigit(data[at]);
    if (digit < 0) break;
    if (at - begin == kMaxSizeDigits) return 0;
    size = size * 16 + static_cast<uint64_t>(digit);
  }
  if (size == 0 || n - at < 2 || data[at] != '\r' || data[at + 1] != '\n') return 0;
  left_ = size;
  state_ = State::kData;
  return at + 2;
}

// One byte of framing; false when it is not allowed here.
bool BodyDecoder::DecodeByte(char c) {
  switch (state_) {
    case State::kSize: {
      if (const int digit = conf::HexDigit(c); digit >= 0) {
        if (++size_digits_ > kMaxSizeDigits) return false;
        left_ = left_ * 16 + static_cast<uint64_t>(digit);
        return true;
      }
      if (size_digits_ == 0) return false;
      if (c == '\r') {
        state_ = State::kSizeLf;
        return true;
      }
      [[fallthrough]];
    }
    case State::kSizeSpace:
      // Space before an extension is bad, but legal. A request's size with nothing but space behind it is
      // not.
      if (c == ' ' || c == '\t') {
        state_ = State::kSizeSpace;
        return ++skipped_ <= kMaxSkipped;
      }
      if (c == '\r' && !strict_) {
        state_ = State::kSizeLf;
        return true;
      }
      state_ = State::kExtension;
      return c == ';' || !strict_;
    case State::kExtension:
      if (c == '\r') {
        state_ = State::kSizeLf;
        return true;
      }
      return c != '\n' && !(strict_ && IsControl(c)) && ++skipped_ <= kMaxSkipped;
    case State::kSizeLf:
      return c == '\n' && EndSizeLine();
    case State::kDataCr:
      state_ = State::kDataLf;
      return c == '\r';
    case State::kDataLf:
      state_ = State::kSize;
      return c == '\n';
    case State::kTrailer:
      // At the start of a trailer line, or of the empty line that ends the message.
      if (c == '\r') {
        state_ = State::kEndLf;
        return true;
      }
      name_size_ = 0;
      state_ = State::kTrailerName;
      return c != '\n' && TakeTrailerName(c);
    case State::kTrailerName:
      return c != '\n' && TakeTrailerName(c);
    case State::kTrailerLine:
      // Trailers are dropped, as a proxy may. A bare line feed ends no line, since other parsers may not see
      // an end there.
      if (c == '\n' || ++skipped_ > kMaxSkipped) return false;
      if (c == '\r') state_ = State::kTrailerLf;
      return true;
    case State::kTrailerLf:
      state_ = State::kTrailer;
      return c == '\n';
    case State::kEndLf:
      done_ = c == '\n';
      return done_;
    case State::kData:
      break;
  }
  return false;
}

// A chunk pays for some of its extension, so that small chunks with large extensions cost their sender.
bool BodyDecoder::EndSizeLine() {
  if (strict_ && skipped_ > 0) {
    const uint64_t free = kFreePerChunk + left_ / kPayloadPerFreeByte;
    excess_ += static_cast<uint32_t>(skipped_ > free ? skipped_ - free : 0);
    if (excess_ > kMaxExcess) return false;
  }
  size_digits_ = 0;
  skipped_ = 0;
  state_ = left_ > 0 ? State::kData : State::kTrailer;
  return true;
}

// One byte of a trailer line up to its colon.
bool BodyDecoder::TakeTrailerName(char c) {
  if (++skipped_ > kMaxSkipped) return false;
  if (c == ':' && name_size_ > 0) {
    state_ = State::kTrailerLine;
    return !strict_ || !IsForbidden({name_.data(), name_size_});
  }
  if (!strict_ && c == '\r') {
    state_ = State::kTrailerLf;  // a line without a colon, of an engine
    return true;
  }
  if (strict_ && !IsTokenChar(c)) return false;
  if (name_size_ < name_.size()) name_[name_size_++] = c;
  return true;
}

bool BodyDecoder::OnEof() {
  if (framing_ == Framing::kUntilClose) done_ = true;
  return done_;
}

}  // namespace gateway::net::http
