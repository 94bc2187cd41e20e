// The usage and the finish reason of an answer, read from its bytes without parsing it.
//
// Works on a whole JSON body, on one server-sent event (`data:` lines included), and on the tail of a body
// whose beginning is gone, as long as the text ends where the document ends. A `"usage"` inside a string is
// never taken for the member, because its quotes would be escaped; one deeper in the document (in a tool's
// input, say) is recognized by the brackets that follow it. Only the bytes of the object itself are parsed
// (simdjson on-demand, with a parser per thread). Pure functions, callable from every thread, without
// allocation after a thread's first call. usage_scan.h reads an answer that comes in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "gateway/api/usage_counts.h"

namespace gateway::api {

// The usage of chat, completions, embeddings, rerank, messages or responses, body or event; nothing if the
// text has none, or `null`, or something other than an object of counts.
std::optional<Usage> UsageFromJson(std::string_view text);

// Why generation ended, from the last `finish_reason` or `stop_reason` that is not null, or from the status
// of a Responses object; kNone while it has not. Of several choices, one that was cut short makes it kLength.
Finish FinishFromJson(std::string_view text);

// Whether this is the chunk that OpenAI's protocol sends for usage alone: `choices` is there and empty.
bool IsUsageOnlyChunk(std::string_view text);

// The bytes to remove from an event of chat or completions, so that a client that did not ask for usage does
// not see it. (The other protocols always report it.)
struct StripPlan {
  bool drop_event = false;  // the event has nothing else
  size_t offset = 0;        // else: remove `length` bytes from here; 0 keeps the event
  size_t length = 0;
};
StripPlan StripUsage(std::string_view event);

}  // namespace gateway::api
