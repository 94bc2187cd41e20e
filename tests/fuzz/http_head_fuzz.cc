// A head from a stranger: no byte may break the parser, how it is cut into reads must not matter, and what is
// accepted must have one meaning only.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/net/http/head.h"

namespace {

using namespace gateway::net::http;

constexpr HeadLimits kLimits{2048, 20};

void Require(bool holds) {
  if (!holds) std::abort();
}

HeadResult Parse(bool request, std::string_view bytes, size_t& scanned, Head& head) {
  return request ? ParseRequestHead(bytes, kLimits, scanned, head)
                 : ParseResponseHead(bytes, kLimits, scanned, head);
}

// Lines whose name is `name`, by a search of the bytes that knows nothing of the parser.
size_t CountLines(std::string_view head, std::string_view name) {
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  size_t n = 0;
  for (size_t at = lower.find('\n'); at != std::string::npos; at = lower.find('\n', at + 1)) {
    n += lower.compare(at + 1, name.size(), name) == 0;
  }
  return n;
}

void RequireOneMeaning(std::string_view bytes, const HeadResult& result, const Head& head) {
  Require(result.consumed >= 4 && result.consumed <= bytes.size() && result.consumed <= kLimits.bytes);
  const std::string_view text = bytes.substr(0, result.consumed);
  Require(text.ends_with("\r\n\r\n") && text.find("\r\n\r\n") + 4 == text.size());
  Require(head.fields.size() <= kLimits.fields);
  for (const Field& field : head.fields) {
    Require(field.name.data() > text.data() &&
            field.value.data() + field.value.size() < text.data() + text.size());
    Require(!field.name.empty() && field.name.find_first_of(" \t\r\n:") == std::string_view::npos);
    Require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
  }
  const size_t lengths = CountLines(text, "content-length:");
  const size_t codings = CountLines(text, "transfer-encoding:");
  Require(lengths + codings <= 1);
  Require(head.content_length.has_value() == (lengths == 1) && head.chunked == (codings == 1));
  Require(head.version == 10 || head.version == 11);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool request = data[0] % 2 == 0;
  const size_t step = data[0] / 2 + 1u;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  Head head;
  size_t scanned = 0;
  const HeadResult whole = Parse(request, bytes, scanned, head);
  if (whole.state == HeadResult::State::kDone) RequireOneMeaning(bytes, whole, head);

  Head pieced;
  scanned = 0;
  HeadResult last{HeadResult::State::kNeedMore};
  for (size_t end = 0; last.state == HeadResult::State::kNeedMore && end < bytes.size();) {
    end = std::min(end + step, bytes.size());
    last = Parse(request, bytes.substr(0, end), scanned, pieced);
  }
  Require(last.state == whole.state);
  if (whole.state == HeadResult::State::kDone) {
    Require(last.consumed == whole.consumed && pieced.fields.size() == head.fields.size());
    Require(pieced.keep_alive == head.keep_alive && pieced.content_length == head.content_length);
  }
  return 0;
}
