// The parts that a Response has as a whole and as a stream. Only for this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/error.h"
#include "gateway/api/json.h"
#include "gateway/api/responses.h"
#include "gateway/api/usage.h"

namespace gateway::api {

// The state of a Response: its status, and the members that depend on it.
struct ResponseState {
  std::string_view status;             // in_progress, completed, incomplete, failed
  std::string_view incomplete_reason;  // max_output_tokens, content_filter
  const ApiError* error = nullptr;
};

// The state that a chat answer ends in.
ResponseState StateFromFinish(std::string_view finish_reason);

// The Response object; `output` is its items as JSON, comma-separated.
void WriteResponse(JsonWriter& json, const ResponseIdentity& identity, const ResponseState& state,
                   std::string_view output, const std::optional<Usage>& usage);

// Output items. `status` is in_progress, completed or incomplete.
void WriteMessagePart(JsonWriter& json, std::string_view type, std::string_view text);
void WriteMessageItem(JsonWriter& json, std::string_view id, std::string_view status, std::string_view part);
void WriteReasoningItem(JsonWriter& json, std::string_view id, std::string_view status,
                        std::string_view part);
// A call as the client's API has it. `arguments`: of a custom tool its input.
struct CallItem {
  std::string_view id;
  std::string_view status;
  std::string_view call_id;
  std::string_view arguments;
};
void WriteCallItem(JsonWriter& json, const CalledTool& tool, const CallItem& item);

// What the engine's function of this name is for the client.
CalledTool ToolOf(const ResponseIdentity& identity, std::string_view called);
std::string_view CallIdPrefix(const CalledTool& tool);

std::string ItemId(std::string_view prefix, std::string_view response_id, size_t index);

}  // namespace gateway::api
