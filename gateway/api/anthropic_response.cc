#include <fmt/format.h>

#include "gateway/api/anthropic.h"
#include "gateway/api/anthropic_shape.h"
#include "gateway/api/json.h"

namespace gateway::api {

std::string_view MessagesStopReason(std::string_view finish_reason, bool used_tool, bool stop_sequence) {
  if (finish_reason == "length") return "max_tokens";
  if (finish_reason == "content_filter") return "refusal";
  if (used_tool || finish_reason == "tool_calls" || finish_reason == "function_call") return "tool_use";
  return stop_sequence ? "stop_sequence" : "end_turn";
}

void WriteMessagesUsage(JsonWriter& json, const Usage& usage) {
  json.Open('{').Key("input_tokens").Number(usage.input - usage.cached_input);
  json.Key("cache_creation_input_tokens").Number(0);
  json.Key("cache_read_input_tokens").Number(usage.cached_input);
  json.Key("output_tokens").Number(usage.output).Close('}');
}

void WriteStop(JsonWriter& json, std::string_view reason, std::string_view stop_text) {
  json.Key("stop_reason").String(reason).Key("stop_sequence");
  if (reason == "stop_sequence") {
    json.String(stop_text);
  } else {
    json.Null();
  }
}

std::string ToolUseId(std::string_view given, std::string_view message_id, size_t number) {
  return given.empty() ? fmt::format("toolu_{}_{}", message_id, number) : std::string(given);
}

namespace {

void WriteToolUse(JsonWriter& json, const ChatToolCall& call, std::string_view id) {
  json.Open('{').Key("type").String("tool_use").Key("id").String(id);
  json.Key("name").String(call.name).Key("input");
  WriteArguments(json, call.arguments);
  json.Close('}');
}

}  // namespace

Translated<std::string> MessageFromChat(std::string_view chat, const MessageIdentity& identity,
                                        const std::optional<Usage>& counted) {
  ChatReader reader;
  ChatPiece piece;
  if (auto error = reader.Read(chat, piece)) return *std::move(error);
  if (!piece.has_choice || piece.finish_reason.empty() || IsFailedFinish(piece.finish_reason)) {
    return Make(Code::kUpstreamError, "The model's engine sent an incomplete answer.");
  }
  std::string out;
  out.reserve(chat.size() + 256);
  JsonWriter json(out);
  json.Open('{').Key("id").String(identity.id).Key("type").String("message").Key("role").String("assistant");
  json.Key("model").String(identity.model).Key("content").Open('[');
  if (identity.show_thinking && !piece.reasoning.empty()) {
    json.Open('{').Key("type").String("thinking").Key("thinking").String(piece.reasoning);
    json.Key("signature").String("").Close('}');
  }
  for (const std::string_view text : {piece.content, piece.refusal}) {
    if (!text.empty()) json.Open('{').Key("type").String("text").Key("text").String(text).Close('}');
  }
  size_t number = 0;
  for (const ChatToolCall& call : piece.tool_calls) {
    WriteToolUse(json, call, ToolUseId(call.id, identity.id, number++));
  }
  json.Close(']');
  WriteStop(json, MessagesStopReason(piece.finish_reason, number > 0, !piece.stop_text.empty()),
            piece.stop_text);
  json.Key("usage");
  WriteMessagesUsage(json, counted ? *counted : piece.usage.value_or(Usage{}));
  json.Close('}');
  return out;
}

}  // namespace gateway::api
