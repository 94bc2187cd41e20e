// The parts of a chat request that the translations of both other APIs share. Only for this folder.
//
// Functions append to `request.body`; those that return false have recorded a fault.
#pragma once

#include <string_view>

#include "gateway/api/chat.h"
#include "gateway/api/json.h"

namespace gateway::api {

// Reads `body` into `root`, which holds until the parser is used again, and begins a request to `model`.
bool BeginChat(std::string_view body, std::string_view model, simdjson::dom::parser& parser,
               ChatRequest& request, Faults& faults, JsonObject& root, bool padded);

// The member `stream`; a stream asks for its usage.
bool WriteStream(Json value, const Path& path, ChatRequest& request, Faults& faults);

// The member `reasoning_effort`. All engines know low, medium and high: a level beyond them becomes the
// nearest.
bool WriteEffort(Json value, const Path& path, ChatRequest& request, Faults& faults);

// The one tool that is to be called.
void WriteToolChoice(std::string_view name, ChatRequest& request);

// The message of a tool that has been called.
void WriteToolMessage(std::string_view call_id, std::string_view text, ChatRequest& request);

}  // namespace gateway::api
