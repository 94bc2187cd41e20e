// What answers are metered by: their tokens, and how they ended; and the usage object that tells the former,
// under the names of every protocol and provider.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gateway::api {

// In tokens. One meaning for all protocols: `input` is the whole prompt, `cached_input` the part of it that
// was read from a cache; `output` is all that was generated, `reasoning` the part of it that was thought.
// (Anthropic's own input_tokens leaves out what was cached; it is added here.)
struct Usage {
  uint64_t input = 0;
  uint64_t cached_input = 0;
  uint64_t output = 0;
  uint64_t reasoning = 0;
  uint64_t cache_written = 0;  // the part of `input` that was written to a cache, where that has a price
  uint64_t audio_ms = 0;       // of sound that was read, where an answer is counted by its seconds
  bool total_alone = false;    // nothing but a total was told, which stands in `input`

  bool operator==(const Usage&) const = default;
};

enum class Finish : uint8_t { kNone, kDone, kLength };

// `object`: its text with its braces. Nothing where that is no object of counts, or larger than 4 KiB.
std::optional<Usage> ReadUsage(std::string_view object);

// Whether the usage of this member of a document is the document's.
inline bool IsUsageWrapper(std::string_view key) {
  return key == "response" || key == "message" || key == "x_groq";
}

}  // namespace gateway::api
