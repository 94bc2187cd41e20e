// An engine's event stream, cut into reads in any way: the same events come out, none before it is whole.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/net/sse.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// The bytes of whole events that come out when `text` comes in pieces of `step`.
std::string Whole(std::string_view text, size_t step) {
  gateway::net::SseFramer framer;
  std::string buffer;
  std::string out;
  for (size_t at = 0; at < text.size(); at += step) {
    buffer.append(text.substr(at, step));
    const size_t whole = framer.Whole(buffer);
    Require(whole <= buffer.size());
    out.append(buffer, 0, whole);
    buffer.erase(0, whole);
    framer.Taken(whole);
  }
  Require(text.starts_with(out));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string at_once = Whole(text, text.size() + 1);
  const std::string pieced = Whole(text, data[0] % 13 + 1u);
  // A CR at the end of a read may be a line end or half of one.
  if (text.find('\r') == std::string_view::npos) Require(at_once == pieced);

  std::string_view rest = at_once;
  size_t length = 0;
  while (!rest.empty()) {
    const gateway::net::SseEvent parsed = gateway::net::NextSseEvent(rest);
    Require(!parsed.raw.empty());
    length += parsed.raw.size();
    Require(parsed.data.find_first_of("\r\n") == std::string_view::npos);
    Require(parsed.name.find_first_of("\r\n") == std::string_view::npos);
    Require(parsed.has_data || (parsed.data.empty() && !parsed.multi_line));
  }
  Require(length == at_once.size());
  return 0;
}
