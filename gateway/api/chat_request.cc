#include "gateway/api/chat_request.h"

#include <fmt/format.h>

namespace gateway::api {

bool BeginChat(std::string_view body, std::string_view model, simdjson::dom::parser& parser,
               ChatRequest& request, Faults& faults, JsonObject& root, bool padded) {
  const Path top;
  if (!ParseObject(parser, body, faults, root, padded)) return false;
  if (const std::string_view twice = DuplicateKey(root); !twice.empty()) {
    return faults.Add(Code::kDuplicateKey, top / twice, fmt::format("'{}' is given twice.", twice));
  }
  request.body.reserve(body.size() + body.size() / 8 + 256);
  JsonWriter(request.body).Open('{').Key("model").String(model);
  return true;
}

bool WriteStream(Json value, const Path& path, ChatRequest& request, Faults& faults) {
  if (!Read(value, path, faults, request.stream)) return false;
  JsonWriter json(request.body);
  json.Key("stream").Bool(request.stream);
  if (request.stream) json.Key("stream_options").Raw(R"({"include_usage":true})");
  return true;
}

bool WriteEffort(Json value, const Path& path, ChatRequest& request, Faults& faults) {
  std::string_view effort;
  if (!Read(value, path, faults, effort)) return false;
  if (effort == "minimal") effort = "low";
  if (effort == "xhigh" || effort == "max" || effort == "ultra") effort = "high";
  JsonWriter(request.body).Key("reasoning_effort").String(effort);
  return true;
}

void WriteToolChoice(std::string_view name, ChatRequest& request) {
  JsonWriter json(request.body);
  json.Key("tool_choice").Open('{').Key("type").String("function");
  json.Key("function").Open('{').Key("name").String(name).Close('}').Close('}');
}

void WriteToolMessage(std::string_view call_id, std::string_view text, ChatRequest& request) {
  request.text_bytes += text.size();
  JsonWriter json(request.body);
  json.Open('{').Key("role").String("tool").Key("tool_call_id").String(call_id);
  json.Key("content").String(text).Close('}');
}

}  // namespace gateway::api
