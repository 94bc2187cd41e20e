#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/api/anthropic.h"
#include "gateway/api/anthropic_content.h"
#include "gateway/api/chat_request.h"
#include "gateway/api/json.h"

namespace gateway::api {
namespace {

// Parameters of the Messages API that chat does not have. Refused unless null or empty.
constexpr auto kRefused =
    std::to_array<std::string_view>({"container", "mcp_servers", "inference_geo", "fallbacks", "compaction"});
// Chat's own parameters that would change the form of the answer during the translation.
constexpr auto kChatOnly = std::to_array<std::string_view>(
    {"n", "stream_options", "logprobs", "top_logprobs", "functions", "function_call", "response_format",
     "stop", "max_completion_tokens", "modalities", "audio", "echo", "best_of", "parallel_tool_calls"});
// Parameters that are read elsewhere, or without meaning for an engine; leaving them out loses nothing.
// `betas` names forms of requests and answers; the parameters that such a form adds are read, or refused, by
// themselves. `diagnostics` asks why a cache was missed, `speed` for a faster service.
constexpr auto kDropped =
    std::to_array<std::string_view>({"betas",           "anthropic_beta", "anthropic_version",
                                     "cache_control",   "service_tier",   "speed",
                                     "diagnostics",     "billing_policy", "fallback_credit_token",
                                     "user_profile_id", "workspace_id",   "thinking",
                                     "output_config",   "output_format",  "stream",
                                     "model",           "system",         "messages",
                                     "tools",           "tool_choice",    "metadata"});
constexpr size_t kMaxUser = 64;  // the longest `user` that chat takes everywhere

bool IsEmpty(Json value) {
  JsonArray array;
  JsonObject object;
  return (value.get(array) == simdjson::SUCCESS && array.size() == 0) ||
         (value.get(object) == simdjson::SUCCESS && object.size() == 0);
}

// A search among the tools that Anthropic runs.
bool IsToolSearch(JsonObject tool) {
  return StringOr(tool, "type").starts_with("tool_search_tool_");
}

bool SearchesTools(JsonArray tools) {
  return std::any_of(tools.begin(), tools.end(), [](Json element) {
    JsonObject tool;
    return element.get(tool) == simdjson::SUCCESS && IsToolSearch(tool);
  });
}

bool Among(std::string_view key, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

class MessagesTranslator {
 public:
  MessagesTranslator(const MessagesOptions& options, ChatRequest& request)
      : options_(options), request_(request), json_(request.body) {}

  bool Translate(std::string_view body, bool tokenize);
  ApiError fault() && { return *std::move(faults_.first); }

 private:
  bool Members(JsonObject root);
  bool Member(std::string_view key, Json value, const Path& path);
  bool Tools(Json value, const Path& path, const MessagesContent& content);
  bool Tool(JsonObject tool, const Path& path);
  bool Thinking(Json value, const Path& path);
  bool ToolChoice(Json value, const Path& path);
  bool Format(Json value, const Path& path);
  bool OutputConfig(Json value, const Path& path);
  bool ContextManagement(Json value, const Path& path);

  const MessagesOptions& options_;
  ChatRequest& request_;
  JsonWriter json_;
  Faults faults_;
  bool has_tools_ = false;
};

bool MessagesTranslator::Translate(std::string_view body, bool tokenize) {
  simdjson::dom::parser parser;
  JsonObject root;
  if (!BeginChat(body, options_.model, parser, request_, faults_, root, options_.padded)) return false;
  MessagesContent content(options_, request_, faults_);
  if (!content.Write(root)) return false;
  if (const auto tools = Find(root, "tools"); tools && !Tools(*tools, Path() / "tools", content))
    return false;
  if (tokenize) {
    json_.Key("add_generation_prompt").Bool(true).Close('}');
    return true;
  }
  if (!Members(root)) return false;
  json_.Close('}');
  return true;
}

bool MessagesTranslator::Members(JsonObject root) {
  const Path top;
  for (const auto field : root) {
    if (field.value.is_null()) continue;
    if (!Member(field.key, field.value, top / field.key)) return false;
  }
  return true;
}

bool MessagesTranslator::Member(std::string_view key, Json value, const Path& path) {
  if (Among(key, kRefused))
    return IsEmpty(value) || faults_.Unsupported(path, "is not supported for this model");
  if (Among(key, kChatOnly)) return faults_.Unsupported(path, "is not a parameter of the Messages API");
  if (key == "stream") return WriteStream(value, path, request_, faults_);
  if (key == "stop_sequences") {
    JsonArray stops;
    if (!Read(value, path, faults_, stops)) return false;
    if (stops.size() > 0) json_.Key("stop").Raw(Minified(value));
    return true;
  }
  JsonObject object;
  if (key == "metadata") {
    if (!Read(value, path, faults_, object)) return false;
    const std::string_view user = StringOr(object, "user_id");
    if (!user.empty() && user.size() <= kMaxUser) json_.Key("user").String(user);
    return true;
  }
  if (key == "thinking") return Thinking(value, path);
  if (key == "tool_choice") return ToolChoice(value, path);
  if (key == "output_format") return Format(value, path);
  if (key == "output_config") return OutputConfig(value, path);
  if (key == "context_management") return ContextManagement(value, path);
  if (key == "top_k" && !options_.knows_top_k)
    return faults_.Unsupported(path, "is not known to this model's engine");
  if (Among(key, kDropped)) return true;
  if (key == "max_tokens") key = options_.bound;
  json_.Key(key).Raw(Minified(value));
  return true;
}

// A tool with `defer_loading` is offered once the client's tool search has found it. Where Anthropic was to
// search, all are offered, so that none needs to be found.
bool MessagesTranslator::Tools(Json value, const Path& path, const MessagesContent& content) {
  JsonArray tools;
  if (!Read(value, path, faults_, tools)) return false;
  const size_t before = request_.body.size();
  const bool all = SearchesTools(tools);
  json_.Key("tools").Open('[');
  size_t i = 0;
  for (const Json element : tools) {
    const Path at = path[i++];
    JsonObject tool;
    if (!Read(element, at, faults_, tool)) return false;
    bool deferred = false;
    if (const auto flag = Find(tool, "defer_loading");
        flag && !Read(*flag, at / "defer_loading", faults_, deferred)) {
      return false;
    }
    if (IsToolSearch(tool) || (deferred && !all && !content.Found(StringOr(tool, "name")))) continue;
    if (!Tool(tool, at)) return false;
    has_tools_ = true;
  }
  json_.Close(']');
  if (!has_tools_) json_.TruncateTo(before);
  request_.text_bytes += request_.body.size() - before;
  return true;
}

bool MessagesTranslator::Thinking(Json value, const Path& path) {
  JsonObject thinking;
  if (!Read(value, path, faults_, thinking)) return false;
  request_.show_thinking =
      StringOr(thinking, "type", "disabled") != "disabled" && StringOr(thinking, "display") != "omitted";
  return true;
}

bool MessagesTranslator::Tool(JsonObject tool, const Path& path) {
  if (const std::string_view type = StringOr(tool, "type", "custom"); type != "custom") {
    return faults_.Unsupported(
        path / "type",
        fmt::format("has the value \"{}\", a tool that Anthropic runs or defines; give tools with "
                    "'input_schema'",
                    type));
  }
  std::string_view name;
  if (!Require(tool, "name", path, faults_, name)) return false;
  json_.Open('{').Key("type").String("function").Key("function").Open('{').Key("name").String(name);
  if (const auto description = Find(tool, "description"))
    json_.Key("description").Raw(Minified(*description));
  const auto schema = Find(tool, "input_schema");
  if (!schema) return faults_.Missing(path / "input_schema");
  JsonObject object;
  if (!Read(*schema, path / "input_schema", faults_, object)) return false;
  json_.Key("parameters").Raw(Minified(object));
  if (const auto strict = Find(tool, "strict")) json_.Key("strict").Raw(Minified(*strict));
  json_.Close('}').Close('}');
  return true;
}

bool MessagesTranslator::ToolChoice(Json value, const Path& path) {
  JsonObject choice;
  std::string_view type;
  if (!Read(value, path, faults_, choice) || !Require(choice, "type", path, faults_, type)) return false;
  if (type == "tool") {
    std::string_view name;
    if (!Require(choice, "name", path, faults_, name)) return false;
    WriteToolChoice(name, request_);
  } else if (type == "auto" || type == "any" || type == "none") {
    // Without tools there is nothing to choose, and chat refuses the member.
    if (has_tools_ || type == "any") json_.Key("tool_choice").String(type == "any" ? "required" : type);
  } else {
    return faults_.Add(
        Code::kInvalidValue, path / "type",
        fmt::format("'tool_choice.type' must be \"auto\", \"any\", \"tool\" or \"none\", not \"{}\".", type));
  }
  bool one_at_a_time = false;
  if (const auto flag = Find(choice, "disable_parallel_tool_use")) {
    if (!Read(*flag, path / "disable_parallel_tool_use", faults_, one_at_a_time)) return false;
  }
  if (one_at_a_time && has_tools_) json_.Key("parallel_tool_calls").Bool(false);
  return true;
}

bool MessagesTranslator::Format(Json value, const Path& path) {
  JsonObject format;
  std::string_view type;
  if (!Read(value, path, faults_, format) || !Require(format, "type", path, faults_, type)) return false;
  if (type != "json_schema")
    return faults_.Unsupported(path / "type", fmt::format("must be \"json_schema\", not \"{}\"", type));
  const auto schema = Find(format, "schema");
  if (!schema) return faults_.Missing(path / "schema");
  json_.Key("response_format").Open('{').Key("type").String("json_schema").Key("json_schema").Open('{');
  json_.Key("name")
      .String("output")
      .Key("schema")
      .Raw(Minified(*schema))
      .Key("strict")
      .Bool(true)
      .Close('}')
      .Close('}');
  return true;
}

bool MessagesTranslator::OutputConfig(Json value, const Path& path) {
  JsonObject config;
  if (!Read(value, path, faults_, config)) return false;
  if (const auto format = Find(config, "format"); format && !Format(*format, path / "format")) return false;
  const auto effort = Find(config, "effort");
  return !effort || WriteEffort(*effort, path / "effort", request_, faults_);
}

// Edits that leave earlier thinking or tools' results out of long conversations. Without them the model sees
// at least what it would have seen. Others change what is said, and nothing here can make them.
bool MessagesTranslator::ContextManagement(Json value, const Path& path) {
  JsonObject management;
  if (!Read(value, path, faults_, management)) return false;
  for (const auto member : management) {
    if (member.key != "edits" && !member.value.is_null())
      return faults_.Unsupported(path / member.key, "is not supported for this model");
  }
  const auto edits = Find(management, "edits");
  if (!edits) return true;
  const Path at = path / "edits";
  JsonArray list;
  if (!Read(*edits, at, faults_, list)) return false;
  size_t i = 0;
  for (const Json element : list) {
    const Path edit_path = at[i++];
    JsonObject edit;
    std::string_view type;
    if (!Read(element, edit_path, faults_, edit) || !Require(edit, "type", edit_path, faults_, type))
      return false;
    if (type.starts_with("clear_thinking_") || type.starts_with("clear_tool_uses_")) continue;
    return faults_.Unsupported(
        edit_path / "type", fmt::format("has the value \"{}\", which is not supported for this model", type));
  }
  return true;
}

Translated<ChatRequest> Run(std::string_view body, const MessagesOptions& options, bool tokenize) {
  ChatRequest request;
  MessagesTranslator translator(options, request);
  if (!translator.Translate(body, tokenize)) return std::move(translator).fault();
  return request;
}

}  // namespace

Translated<ChatRequest> ChatFromMessages(std::string_view body, const MessagesOptions& options) {
  return Run(body, options, false);
}

Translated<ChatRequest> TokenizeFromMessages(std::string_view body, const MessagesOptions& options,
                                             Tokenizer tokenizer) {
  Translated<ChatRequest> made = Run(body, options, true);
  if (auto* const request = std::get_if<ChatRequest>(&made)) AskTokenizer(*request, options.model, tokenizer);
  return made;
}

}  // namespace gateway::api
