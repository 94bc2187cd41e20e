#include "gateway/net/sse.h"

#include <cstring>

namespace gateway::net {
namespace {

// The length of a line end at `at`: 2 for CRLF, 1 for LF or CR, 0 for none.
size_t LineEnd(std::string_view s, size_t at) {
  if (at >= s.size()) return 0;
  if (s[at] == '\n') return 1;
  if (s[at] != '\r') return 0;
  return at + 1 < s.size() && s[at + 1] == '\n' ? 2 : 1;
}

// The length of the line at the front, without its end. Block by block: where all lines end with CR, a search for LF
// would read to the end of the bytes for each line.
size_t LineLength(std::string_view s) {
  constexpr size_t kBlock = 512;
  for (size_t at = 0; at < s.size(); at += kBlock) {
    const std::string_view block = s.substr(at, kBlock);
    const void* lf = std::memchr(block.data(), '\n', block.size());
    const size_t to_lf = lf ? static_cast<size_t>(static_cast<const char*>(lf) - block.data()) : block.size();
    const void* cr = std::memchr(block.data(), '\r', to_lf);
    if (cr) return at + static_cast<size_t>(static_cast<const char*>(cr) - block.data());
    if (lf) return at + to_lf;
  }
  return s.size();
}

// The offset past the blank line that ends the first event at or after `from`, or npos.
size_t EventEnd(std::string_view s, size_t from) {
  size_t at = from;
  while (at < s.size()) {
    if (s[at] != '\n' && s[at] != '\r') {
      at += LineLength(s.substr(at));
      continue;
    }
    const size_t first = LineEnd(s, at);
    const size_t second = LineEnd(s, at + first);
    // "\r\n\r" at the end of what has come: the last "\n" is on its way.
    const bool half = first == 2 && second == 1 && s[at + 2] == '\r' && at + 3 == s.size();
    if (half) return std::string_view::npos;
    if (second > 0) return at + first + second;
    at += first;
  }
  return std::string_view::npos;
}

constexpr std::string_view kData = "data:";

// The value of a line whose field name ends at `name`.
std::string_view ValueOf(std::string_view line, size_t name) {
  return line.substr(line.size() > name && line[name] == ' ' ? name + 1 : name);
}

}  // namespace

size_t SseFramer::Whole(std::string_view bytes) {
  size_t whole = 0;
  size_t at = scanned_;
  while (true) {
    const size_t end = EventEnd(bytes, at);
    if (end == std::string_view::npos) break;
    whole = at = end;
  }
  // A line end may be half here: look again from up to three bytes back, but never before an event's end.
  const size_t back = bytes.size() > 3 ? bytes.size() - 3 : 0;
  scanned_ = back > whole ? back : whole;
  return whole;
}

SseEvent NextSseEvent(std::string_view& bytes) {
  SseEvent event;
  size_t at = 0;
  // Line by line until a blank one; line ends before the first line are a blank line too.
  while (at < bytes.size()) {
    const std::string_view line = bytes.substr(at, LineLength(bytes.substr(at)));
    at += line.size();
    const size_t end = LineEnd(bytes, at);
    const size_t blank = LineEnd(bytes, at + end);
    at += end + blank;
    if (line.starts_with(kData)) {
      if (event.has_data) {
        event.multi_line = true;
      } else {
        event.data = ValueOf(line, kData.size());
        event.has_data = true;
      }
    } else if (line.starts_with("event:")) {
      event.name = ValueOf(line, 6);
    }
    if (end > 0 && blank > 0) break;
  }
  event.raw = bytes.substr(0, at);
  bytes.remove_prefix(at);
  return event;
}

std::vector<std::string_view> DataLines(std::string_view raw) {
  std::vector<std::string_view> lines;
  while (!raw.empty()) {
    const size_t length = LineLength(raw);
    const std::string_view line = raw.substr(0, length);
    if (line.starts_with(kData)) lines.push_back(ValueOf(line, kData.size()));
    raw.remove_prefix(length + LineEnd(raw, length));
  }
  return lines;
}

std::string_view WholeData(const SseEvent& event, std::string& joined) {
  if (!event.multi_line) return event.data;
  joined.clear();
  for (const std::string_view line : DataLines(event.raw)) joined.append(line).append(1, '\n');
  joined.pop_back();
  return joined;
}

}  // namespace gateway::net
