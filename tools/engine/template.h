// The chat template: turns messages of all three dialects (chat, responses, messages) and tools into a
// prompt.
#pragma once

#include <string>
#include <string_view>

#include "tools/engine/fields.h"
#include "tools/engine/generation.h"

namespace tidegate_engine {

// Reads `tools` and `tool_choice` into `out` and the tools into the prompt.
void AddTools(const Fields& fields, Prompt& prompt, Generation& out);

// One message of the given role, with everything in `content`: text, parts, tool results, images.
void AddMessage(std::string_view role, const Element* content, const Element* tool_calls, Prompt& prompt);

// The array under `key`; sets out.last_user. A missing array, or an item that is not a message, is an error.
void AddMessages(const Fields& fields, std::string_view key, Prompt& prompt, Generation& out);

// All text of a content field, which is a string or an array of parts.
std::string ContentText(const Element& content);

}  // namespace tidegate_engine
