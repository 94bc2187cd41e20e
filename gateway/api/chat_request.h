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

// A list of tools that is not empty, each by `write(JsonObject tool, const Path&)`.
template <class Write>
bool WriteTools(Json value, const Path& path, ChatRequest& request, Faults& faults, const Write& write) {
  JsonArray tools;
  if (!Read(value, path, faults, tools)) return false;
  if (tools.size() == 0) return true;
  const size_t before = request.body.size();
  JsonWriter(request.body).Key("tools").Open('[');
  size_t i = 0;
  for (const Json element : tools) {
    const Path at = path[i++];
    JsonObject tool;
    if (!Read(element, at, faults, tool) || !write(tool, at)) return false;
  }
  JsonWriter(request.body).Close(']');
  request.text_bytes += request.body.size() - before;
  return true;
}

// The one tool that is to be called.
void WriteToolChoice(std::string_view name, ChatRequest& request);

// The message of a tool that has been called.
void WriteToolMessage(std::string_view call_id, std::string_view text, ChatRequest& request);

}  // namespace gateway::api
