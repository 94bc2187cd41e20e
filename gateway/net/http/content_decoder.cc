#include "gateway/net/http/content_decoder.h"

#include <zlib.h>

#include <array>

#include "conf/text.h"

namespace gateway::net::http {
namespace {

constexpr int kGzipOrZlib = 15 + 32;  // the largest window; which of the two, its head says

}  // namespace

struct ContentDecoder::State {
  z_stream stream{};
};

ContentDecoder::Coding ContentDecoder::CodingOf(std::string_view content_encoding) {
  if (content_encoding.empty() || conf::EqualsIgnoreCase(content_encoding, "identity")) return Coding::kNone;
  for (const std::string_view known : {"gzip", "x-gzip", "deflate"}) {
    if (conf::EqualsIgnoreCase(content_encoding, known)) return Coding::kDeflated;
  }
  return Coding::kUnknown;
}

ContentDecoder::ContentDecoder() : state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->stream, kGzipOrZlib) != Z_OK) state_.reset();
}

ContentDecoder::~ContentDecoder() {
  if (state_) inflateEnd(&state_->stream);
}

bool ContentDecoder::Decode(std::string_view coded, std::string& decoded) {
  if (!state_) return false;
  z_stream& stream = state_->stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(coded.data()));
  stream.avail_in = static_cast<uInt>(coded.size());
  std::array<char, 16 * 1024> out;
  while (!whole_) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = out.size();
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return false;
    const size_t n = out.size() - stream.avail_out;
    decoded_ += n;
    if (decoded_ > kMostBytes) return false;
    decoded.append(out.data(), n);
    whole_ = result == Z_STREAM_END;
    if (n < out.size()) break;
  }
  return true;
}

}  // namespace gateway::net::http
