// A framed body, cut into reads in any way: the payload and where it ends must be the same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/net/http/body_decoder.h"

namespace {

using namespace gateway::net::http;

struct Outcome {
  std::string payload;
  size_t consumed = 0;
  bool malformed = false;
  bool done = false;
};

void Require(bool holds) {
  if (!holds) std::abort();
}

Outcome Decode(BodyDecoder decoder, std::string_view bytes, size_t step) {
  Outcome outcome;
  while (outcome.consumed < bytes.size() && !decoder.done() && !outcome.malformed) {
    std::string piece(bytes.substr(outcome.consumed, step));
    const BodyDecoder::Result r = decoder.Decode(piece.data(), piece.size());
    Require(r.payload <= r.consumed && r.consumed <= piece.size());
    Require(r.malformed || decoder.done() || r.consumed == piece.size());
    outcome.payload.append(piece, 0, r.payload);
    outcome.consumed += r.consumed;
    outcome.malformed = r.malformed;
  }
  outcome.done = decoder.done();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Head head;
  head.status = 200;
  const bool request = data[0] & 1;
  if (data[0] & 2) {
    head.chunked = true;
  } else if (data[0] & 4) {
    head.content_length = data[1];
  }
  const size_t step = data[1] % 17 + 1u;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  const BodyDecoder decoder = request ? BodyDecoder::ForRequest(head) : BodyDecoder::ForResponse(head, false);
  const Outcome whole = Decode(decoder, bytes, bytes.size() + 1);
  const Outcome pieces = Decode(decoder, bytes, step);
  Require(whole.malformed == pieces.malformed && whole.done == pieces.done);
  // What is malformed is refused as a whole, however much of it was decoded before.
  if (!whole.malformed) Require(whole.payload == pieces.payload && whole.consumed == pieces.consumed);
  if (request && head.chunked && whole.done && !whole.malformed) {
    Require(bytes.substr(0, whole.consumed).ends_with("\r\n"));
    Require(whole.payload.size() + 5 <= whole.consumed);
  }
  return 0;
}
