// SseFramer: finds where whole server-sent events end in bytes that arrive in any pieces. Sans-IO.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gateway::net {

class SseFramer {
 public:
  // The length of the longest prefix of `bytes` that ends with a whole event (its blank line included), or 0.
  // `bytes` is all that has not been taken yet; what was scanned before is not scanned again. LF, CRLF and CR
  // line ends.
  size_t Whole(std::string_view bytes);

  // The caller has dropped `n` bytes from the front.
  void Taken(size_t n) { scanned_ = n < scanned_ ? scanned_ - n : 0; }

 private:
  size_t scanned_ = 0;
};

struct SseEvent {
  std::string_view raw;   // the event, with its blank line
  std::string_view name;  // of the `event:` line; empty when there is none
  std::string_view data;  // of the first `data:` line
  bool has_data = false;
  bool multi_line = false;  // more than one data line
};

// Takes the next event off the front of `bytes`, which should hold whole events only: bytes without an end
// count as one event.
SseEvent NextSseEvent(std::string_view& bytes);

// The data of each `data:` line of an event.
std::vector<std::string_view> DataLines(std::string_view raw);
// The data of the event: of all its lines, with LF between them. `joined` keeps it if there are several.
std::string_view WholeData(const SseEvent& event, std::string& joined);

}  // namespace gateway::net
