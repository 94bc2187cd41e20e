// What a Redis server writes, cut into reads in any way: the replies and where they break must be the same,
// and no reply is larger than the reader's bounds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "gateway/net/redis_protocol.h"

namespace {

using gateway::net::RedisReader;
using gateway::net::RedisReply;

void Require(bool holds) {
  if (!holds) std::abort();
}

bool Same(const RedisReply& a, const RedisReply& b) {
  return a.type == b.type && a.integer == b.integer && a.text == b.text &&
         std::ranges::equal(a.elements, b.elements, Same);
}

struct Size {
  size_t values = 0;
  size_t bytes = 0;
};

void Add(const RedisReply& reply, Size& size) {
  ++size.values;
  size.bytes += reply.text.size();
  Require(reply.elements.size() <= RedisReader::kMaxElements);
  for (const RedisReply& element : reply.elements) Add(element, size);
}

struct Outcome {
  std::vector<RedisReply> replies;
  bool broken = false;
};

Outcome Read(std::string_view bytes, size_t step, size_t max_bytes) {
  RedisReader reader(max_bytes);
  Outcome outcome;
  for (size_t at = 0; at < bytes.size() && !outcome.broken; at += step) {
    reader.Feed(bytes.substr(at, step));
    RedisReply reply;
    RedisReader::Next next;
    while ((next = reader.Take(reply)) == RedisReader::Next::kReply) {
      Size size;
      Add(reply, size);
      Require(size.bytes <= max_bytes && size.values <= max_bytes);
      outcome.replies.push_back(std::move(reply));
    }
    outcome.broken = next == RedisReader::Next::kBroken;
  }
  if (outcome.broken) Require(!reader.error().empty());
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t step = data[0] % 61 + 1u;
  const size_t max_bytes = 16 + data[1] * 8u;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  const Outcome whole = Read(bytes, bytes.size() + 1, max_bytes);
  const Outcome pieces = Read(bytes, step, max_bytes);
  Require(whole.broken == pieces.broken && std::ranges::equal(whole.replies, pieces.replies, Same));
  return 0;
}
