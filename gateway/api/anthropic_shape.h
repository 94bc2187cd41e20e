// The parts that a Message has as a whole and as a stream. Only for this folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gateway/api/json.h"
#include "gateway/api/usage.h"

namespace gateway::api {

std::string_view MessagesStopReason(std::string_view finish_reason, bool used_tool, bool stop_sequence);

// `input_tokens` leaves out what was read from a cache, as Anthropic counts.
void WriteMessagesUsage(JsonWriter& json, const Usage& usage);

// The members `stop_reason` and `stop_sequence`.
void WriteStop(JsonWriter& json, std::string_view reason, std::string_view stop_text);

// The engine's id of a tool call, or, without one, an id made from the message's.
std::string ToolUseId(std::string_view given, std::string_view message_id, size_t number);

}  // namespace gateway::api
