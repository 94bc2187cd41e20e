#include <fmt/format.h>

#include <algorithm>

#include "gateway/api/json.h"
#include "gateway/api/responses.h"
#include "gateway/api/responses_shape.h"

namespace gateway::api {

ResponseState StateFromFinish(std::string_view finish_reason) {
  if (finish_reason == "length") return {.status = "incomplete", .incomplete_reason = "max_output_tokens"};
  if (finish_reason == "content_filter")
    return {.status = "incomplete", .incomplete_reason = "content_filter"};
  return {.status = "completed", .incomplete_reason = {}};
}

namespace {

void WriteUsage(JsonWriter& json, const std::optional<Usage>& usage) {
  if (!usage) {
    json.Null();
    return;
  }
  json.Open('{').Key("input_tokens").Number(usage->input);
  json.Key("input_tokens_details").Open('{').Key("cached_tokens").Number(usage->cached_input).Close('}');
  json.Key("output_tokens").Number(usage->output);
  json.Key("output_tokens_details").Open('{').Key("reasoning_tokens").Number(usage->reasoning).Close('}');
  json.Key("total_tokens").Number(usage->input + usage->output).Close('}');
}

}  // namespace

void WriteResponse(JsonWriter& json, const ResponseIdentity& identity, const ResponseState& state,
                   std::string_view output, const std::optional<Usage>& usage) {
  json.Open('{').Key("id").String(identity.id).Key("object").String("response");
  json.Key("created_at").Raw(std::to_string(identity.created_at)).Key("status").String(state.status);
  json.Key("background").Bool(false).Key("error");
  if (state.error != nullptr) {
    const bool ours = state.error->status >= 500 || state.error->code.empty();
    json.Open('{').Key("code").String(ours ? "server_error" : std::string_view(state.error->code));
    json.Key("message").String(state.error->message).Close('}');
  } else {
    json.Null();
  }
  json.Key("incomplete_details");
  if (state.incomplete_reason.empty()) {
    json.Null();
  } else {
    json.Open('{').Key("reason").String(state.incomplete_reason).Close('}');
  }
  json.Key("model").String(identity.model).Key("output").Open('[');
  if (!output.empty()) json.Raw(output);
  json.Close(']').Key("previous_response_id").Null().Key("store").Bool(false);
  json.Key("truncation").String("disabled");
  if (!identity.echo.empty()) json.Raw(identity.echo);
  json.Key("usage");
  WriteUsage(json, usage);
  json.Close('}');
}

void WriteMessagePart(JsonWriter& json, std::string_view type, std::string_view text) {
  json.Open('{').Key("type").String(type).Key(type == "refusal" ? "refusal" : "text").String(text);
  if (type == "output_text") json.Key("annotations").Raw("[]").Key("logprobs").Raw("[]");
  json.Close('}');
}

void WriteMessageItem(JsonWriter& json, std::string_view id, std::string_view status, std::string_view part) {
  json.Open('{').Key("id").String(id).Key("type").String("message").Key("status").String(status);
  json.Key("role").String("assistant").Key("content").Open('[');
  if (!part.empty()) json.Raw(part);
  json.Close(']').Close('}');
}

void WriteReasoningItem(JsonWriter& json, std::string_view id, std::string_view status,
                        std::string_view part) {
  json.Open('{').Key("id").String(id).Key("type").String("reasoning").Key("status").String(status);
  json.Key("summary").Raw("[]").Key("content").Open('[');
  if (!part.empty()) json.Raw(part);
  json.Close(']').Close('}');
}

void WriteCallItem(JsonWriter& json, const CalledTool& tool, const CallItem& item) {
  constexpr std::string_view kTypes[] = {"function_call", "custom_tool_call", "tool_search_call"};
  json.Open('{').Key("id").String(item.id).Key("type").String(kTypes[static_cast<size_t>(tool.kind)]);
  json.Key("status").String(item.status).Key("call_id").String(item.call_id);
  if (tool.kind == CalledTool::Kind::kSearch) {
    json.Key("execution").String("client").Key("arguments");
    WriteArguments(json, item.arguments);
  } else {
    json.Key("name").String(tool.name);
    if (!tool.space.empty()) json.Key("namespace").String(tool.space);
    json.Key(tool.kind == CalledTool::Kind::kCustom ? "input" : "arguments").String(item.arguments);
  }
  json.Close('}');
}

CalledTool ToolOf(const ResponseIdentity& identity, std::string_view called) {
  const auto found =
      std::lower_bound(identity.tools.begin(), identity.tools.end(), called,
                       [](const CalledTool& tool, std::string_view name) { return tool.called < name; });
  if (found != identity.tools.end() && found->called == called) return *found;
  CalledTool plain;
  plain.called = plain.name = called;
  return plain;
}

std::string_view CallIdPrefix(const CalledTool& tool) {
  constexpr std::string_view kPrefixes[] = {"fc", "ctc", "tsc"};
  return kPrefixes[static_cast<size_t>(tool.kind)];
}

std::string ItemId(std::string_view prefix, std::string_view response_id, size_t index) {
  if (response_id.starts_with("resp_")) response_id.remove_prefix(5);
  return fmt::format("{}_{}_{}", prefix, response_id, index);
}

Translated<std::string> ResponseFromChat(std::string_view chat, const ResponseIdentity& identity,
                                         const std::optional<Usage>& counted) {
  ChatReader reader;
  ChatPiece piece;
  if (auto error = reader.Read(chat, piece)) return *std::move(error);
  if (!piece.has_choice || piece.finish_reason.empty() || IsFailedFinish(piece.finish_reason)) {
    return Make(Code::kUpstreamError, "The model's engine sent an incomplete answer.");
  }
  const ResponseState state = StateFromFinish(piece.finish_reason);
  std::string output;
  JsonWriter items(output);
  size_t index = 0;
  const auto part = [](std::string_view type, std::string_view text) {
    std::string json;
    JsonWriter writer(json);
    WriteMessagePart(writer, type, text);
    return json;
  };
  if (!piece.reasoning.empty()) {
    WriteReasoningItem(items, ItemId("rs", identity.id, index++), "completed",
                       part("reasoning_text", piece.reasoning));
  }
  if (!piece.content.empty()) {
    WriteMessageItem(items, ItemId("msg", identity.id, index++), state.status,
                     part("output_text", piece.content));
  }
  if (!piece.refusal.empty()) {
    WriteMessageItem(items, ItemId("msg", identity.id, index++), state.status,
                     part("refusal", piece.refusal));
  }
  for (const ChatToolCall& call : piece.tool_calls) {
    const CalledTool tool = ToolOf(identity, call.name);
    const std::string id = ItemId(CallIdPrefix(tool), identity.id, index++);
    std::string input;
    if (tool.kind == CalledTool::Kind::kCustom) {
      FreeformInput reader_of_input;
      reader_of_input.Feed(call.arguments, input);
      reader_of_input.Finish(input);
    }
    WriteCallItem(items, tool,
                  {.id = id,
                   .status = state.status,
                   .call_id = call.id.empty() ? std::string_view(id) : call.id,
                   .arguments = tool.kind == CalledTool::Kind::kCustom ? input
                                : call.arguments.empty()               ? std::string_view("{}")
                                                                       : call.arguments});
  }
  std::string out;
  out.reserve(output.size() + identity.echo.size() + 512);
  JsonWriter json(out);
  WriteResponse(json, identity, state, output, counted ? counted : piece.usage);
  return out;
}

}  // namespace gateway::api
