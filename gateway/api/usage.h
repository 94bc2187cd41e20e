// What an answer says about itself: tokens used and why it ended, read from its bytes without parsing it.
//
// Works on a whole JSON body, on one server-sent event (`data:` lines included), and on the tail of a body
// whose beginning is gone, as long as the text ends where the document ends. A `"usage"` inside a string is
// never taken for the member, because its quotes would be escaped; one deeper in the document (in a tool's
// input, say) is told apart by the brackets that follow it. Only the bytes of the object itself are parsed
// (simdjson on-demand, with a parser per thread). Pure functions, callable from every thread, no allocation
// after a thread's first call.
#pragma once

#include <cstddef>
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

  bool operator==(const Usage&) const = default;
};

// The usage of chat, completions, embeddings, rerank, messages or responses, body or event; nothing where the
// text has none, has `null`, or has one that is no object of counts.
std::optional<Usage> UsageFromJson(std::string_view text);

enum class Finish : uint8_t { kNone, kDone, kLength };

// Why generation ended, from the last `finish_reason` or `stop_reason` that is not null, or from the status
// of a Responses object; kNone while it has not. Of several choices, one that was cut short makes it kLength.
Finish FinishFromJson(std::string_view text);

// Whether this is the chunk that OpenAI's protocol sends for usage alone: `choices` is there and empty.
bool IsUsageOnlyChunk(std::string_view text);

// What to take out of an event of chat or completions so that a client which did not ask for usage does not
// see it. (The other protocols tell it always.)
struct StripPlan {
  bool drop_event = false;  // the event holds nothing else
  size_t offset = 0;        // else: cut `length` bytes from here; 0 leaves the event as it is
  size_t length = 0;
};
StripPlan StripUsage(std::string_view event);

}  // namespace gateway::api
