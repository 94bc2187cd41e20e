#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/api/anthropic.h"
#include "gateway/api/json.h"

namespace gateway::api {
namespace {

// What the Messages API offers and chat has no word for. Refused unless null.
constexpr auto kRefused = std::to_array<std::string_view>(
    {"container", "context_management", "mcp_servers", "inference_geo", "fallbacks"});
// Chat's own members, which would change the shape of the answer under the translation.
constexpr auto kChatOnly = std::to_array<std::string_view>(
    {"n", "stream_options", "logprobs", "top_logprobs", "functions", "function_call", "response_format",
     "stop", "max_completion_tokens", "modalities", "audio", "echo", "best_of", "parallel_tool_calls"});
// Without meaning for an engine, and without loss when they are left out.
constexpr auto kDropped = std::to_array<std::string_view>(
    {"cache_control", "service_tier", "thinking", "output_config", "output_format", "stream", "model",
     "system", "messages", "tools", "tool_choice", "metadata"});

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
  bool Refuse(const Path& path, std::string_view what);
  bool Members(JsonObject root);
  bool Member(std::string_view key, Json value, const Path& path);
  bool Messages(JsonObject root);
  bool System(Json value, const Path& path);
  bool User(Json content, const Path& path);
  bool Assistant(Json content, const Path& path);
  bool UserBlocks(JsonArray blocks, const Path& path);
  bool UserPart(JsonObject block, std::string_view type, const Path& path);
  bool Image(JsonObject block, const Path& path);
  bool Document(JsonObject block, const Path& path);
  bool ToolResult(JsonObject block, const Path& path);
  bool AssistantBlock(JsonObject block, const Path& path, std::string& text, std::string& thinking,
                      std::string& calls);
  bool Tools(Json value, const Path& path);
  bool Tool(JsonObject tool, const Path& path);
  bool ToolChoice(Json value, const Path& path);
  bool Format(Json value, const Path& path);
  bool OutputConfig(Json value, const Path& path);
  bool JoinText(Json content, const Path& path, std::string_view between, std::string& into);
  void TextPart(std::string_view text);

  const MessagesOptions& options_;
  ChatRequest& request_;
  JsonWriter json_;
  Faults faults_;
  std::string parts_;  // of the user message that is being collected
  size_t part_count_ = 0;
  std::string only_text_;
};

bool MessagesTranslator::Refuse(const Path& path, std::string_view what) {
  return faults_.Add(
      Code::kUnsupportedParameter, path,
      fmt::format("'{}' {}; the model's engine speaks chat completions only.", path.Text(), what));
}

bool MessagesTranslator::Translate(std::string_view body, bool tokenize) {
  simdjson::dom::parser parser;
  JsonObject root;
  const Path top;
  if (!ParseObject(parser, body, faults_, root)) return false;
  if (const std::string_view twice = DuplicateKey(root); !twice.empty()) {
    return faults_.Add(Code::kDuplicateKey, top / twice, fmt::format("'{}' is given twice.", twice));
  }
  request_.body.reserve(body.size() + body.size() / 8 + 256);
  json_.Open('{').Key("model").String(options_.model);
  if (!Messages(root)) return false;
  if (const auto tools = Find(root, "tools"); tools && !Tools(*tools, top / "tools")) return false;
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
  if (Among(key, kRefused)) return Refuse(path, "is not supported for this model");
  if (Among(key, kChatOnly)) return Refuse(path, "is not a parameter of the Messages API");
  if (key == "stream") {
    if (!Read(value, path, faults_, request_.stream)) return false;
    json_.Key(key).Bool(request_.stream);
    if (request_.stream) json_.Key("stream_options").Raw(R"({"include_usage":true})");
    return true;
  }
  if (key == "stop_sequences") {
    JsonArray stops;
    if (!Read(value, path, faults_, stops)) return false;
    if (stops.size() > 0) json_.Key("stop").Copy(value);
    return true;
  }
  JsonObject object;
  if (key == "metadata") {
    if (!Read(value, path, faults_, object)) return false;
    if (const std::string_view user = StringOr(object, "user_id"); !user.empty())
      json_.Key("user").String(user);
    return true;
  }
  if (key == "thinking") {
    if (!Read(value, path, faults_, object)) return false;
    request_.show_thinking = StringOr(object, "type", "disabled") != "disabled";
    return true;
  }
  if (key == "tool_choice") return ToolChoice(value, path);
  if (key == "output_format") return Format(value, path);
  if (key == "output_config") return OutputConfig(value, path);
  if (Among(key, kDropped)) return true;
  json_.Key(key).Copy(value);
  return true;
}

bool MessagesTranslator::Messages(JsonObject root) {
  const Path top;
  const Path path = top / "messages";
  json_.Key("messages").Open('[');
  if (const auto system = Find(root, "system"); system && !System(*system, top / "system")) return false;
  const auto value = Find(root, "messages");
  if (!value) return faults_.Missing(path);
  JsonArray messages;
  if (!Read(*value, path, faults_, messages)) return false;
  if (messages.size() == 0)
    return faults_.Add(Code::kInvalidValue, path, "'messages' must hold at least one message.");
  size_t i = 0;
  for (const Json element : messages) {
    const Path at = path[i++];
    JsonObject message;
    std::string_view role;
    if (!Read(element, at, faults_, message) || !Require(message, "role", at, faults_, role)) return false;
    const Path content_path = at / "content";
    const auto content = Find(message, "content");
    if (!content) return faults_.Missing(content_path);
    if (role != "user" && role != "assistant") {
      return faults_.Add(
          Code::kInvalidValue, at / "role",
          fmt::format("'{}' must be \"user\" or \"assistant\", not \"{}\"; a system prompt goes into "
                      "the top-level 'system'.",
                      (at / "role").Text(), role));
    }
    if (!(role == "user" ? User(*content, content_path) : Assistant(*content, content_path))) return false;
  }
  json_.Close(']');
  return true;
}

// The text of a string or of text blocks.
bool MessagesTranslator::JoinText(Json content, const Path& path, std::string_view between,
                                  std::string& into) {
  std::string_view text;
  if (content.get(text) == simdjson::SUCCESS) {
    into += text;
    return true;
  }
  JsonArray blocks;
  if (!Read(content, path, faults_, blocks)) return false;
  size_t i = 0;
  for (const Json element : blocks) {
    const Path at = path[i++];
    JsonObject block;
    std::string_view type;
    if (!Read(element, at, faults_, block) || !Require(block, "type", at, faults_, type)) return false;
    if (type != "text") return Refuse(at / "type", fmt::format("must be \"text\" here, not \"{}\"", type));
    if (!Require(block, "text", at, faults_, text)) return false;
    if (!into.empty()) into += between;
    into += text;
  }
  return true;
}

bool MessagesTranslator::System(Json value, const Path& path) {
  std::string text;
  if (!JoinText(value, path, "\n\n", text)) return false;
  if (text.empty()) return true;
  request_.text_bytes += text.size();
  json_.Open('{').Key("role").String("system").Key("content").String(text).Close('}');
  return true;
}

void MessagesTranslator::TextPart(std::string_view text) {
  request_.text_bytes += text.size();
  if (part_count_++ == 0) only_text_ = text;
  JsonWriter(parts_).Open('{').Key("type").String("text").Key("text").String(text).Close('}');
}

bool MessagesTranslator::User(Json content, const Path& path) {
  std::string_view text;
  if (content.get(text) == simdjson::SUCCESS) {
    request_.text_bytes += text.size();
    json_.Open('{').Key("role").String("user").Key("content").String(text).Close('}');
    return true;
  }
  JsonArray blocks;
  if (!Read(content, path, faults_, blocks)) return false;
  parts_.clear();
  part_count_ = 0;
  only_text_.clear();
  if (!UserBlocks(blocks, path)) return false;
  if (part_count_ == 0) return true;
  json_.Open('{').Key("role").String("user").Key("content");
  if (part_count_ == 1 && !only_text_.empty()) {
    json_.String(only_text_);
  } else {
    json_.Open('[').Raw(parts_).Close(']');
  }
  json_.Close('}');
  return true;
}

// Tool results are written at once, because chat wants them right behind the calls; all else is collected.
bool MessagesTranslator::UserBlocks(JsonArray blocks, const Path& path) {
  size_t i = 0;
  for (const Json element : blocks) {
    const Path at = path[i++];
    JsonObject block;
    std::string_view type;
    if (!Read(element, at, faults_, block) || !Require(block, "type", at, faults_, type)) return false;
    if (!(type == "tool_result" ? ToolResult(block, at) : UserPart(block, type, at))) return false;
  }
  return true;
}

bool MessagesTranslator::UserPart(JsonObject block, std::string_view type, const Path& path) {
  if (type == "text") {
    std::string_view text;
    if (!Require(block, "text", path, faults_, text)) return false;
    TextPart(text);
    return true;
  }
  if (type == "image") return Image(block, path);
  if (type == "document") return Document(block, path);
  return Refuse(path / "type",
                fmt::format("has the value \"{}\", which is not supported for this model", type));
}

bool MessagesTranslator::Image(JsonObject block, const Path& path) {
  const Path source_path = path / "source";
  const auto value = Find(block, "source");
  if (!value) return faults_.Missing(source_path);
  JsonObject source;
  std::string_view type;
  if (!Read(*value, source_path, faults_, source) || !Require(source, "type", source_path, faults_, type)) {
    return false;
  }
  std::string url;
  std::string_view data;
  if (type == "base64") {
    std::string_view media;
    if (!Require(source, "media_type", source_path, faults_, media)) return false;
    if (!Require(source, "data", source_path, faults_, data)) return false;
    url = fmt::format("data:{};base64,{}", media, data);
  } else if (type == "url") {
    if (!Require(source, "url", source_path, faults_, data)) return false;
    url = data;
  } else {
    return Refuse(source_path / "type", fmt::format("must be \"base64\" or \"url\", not \"{}\"", type));
  }
  ++request_.images;
  ++part_count_;
  JsonWriter part(parts_);
  part.Open('{').Key("type").String("image_url").Key("image_url").Open('{').Key("url").String(url);
  part.Close('}').Close('}');
  return true;
}

bool MessagesTranslator::Document(JsonObject block, const Path& path) {
  const Path source_path = path / "source";
  const auto value = Find(block, "source");
  if (!value) return faults_.Missing(source_path);
  JsonObject source;
  std::string_view type;
  if (!Read(*value, source_path, faults_, source) || !Require(source, "type", source_path, faults_, type)) {
    return false;
  }
  std::string text;
  const std::string_view member = type == "text" ? "data" : "content";
  if (type != "text" && type != "content") {
    return Refuse(source_path / "type",
                  fmt::format("must be \"text\" or \"content\" for a document, not \"{}\"", type));
  }
  const auto content = Find(source, member);
  if (!content) return faults_.Missing(source_path / member);
  const Path content_path = source_path / member;
  if (!JoinText(*content, content_path, "\n", text)) return false;
  if (const std::string_view title = StringOr(block, "title"); !title.empty())
    text = fmt::format("{}\n\n{}", title, text);
  TextPart(text);
  return true;
}

// Text becomes the tool's message; images, which a tool's message cannot hold, follow in the user's.
bool MessagesTranslator::ToolResult(JsonObject block, const Path& path) {
  std::string_view id;
  if (!Require(block, "tool_use_id", path, faults_, id)) return false;
  bool failed = false;
  if (const auto flag = Find(block, "is_error"); flag && !Read(*flag, path / "is_error", faults_, failed))
    return false;
  std::string text;
  if (const auto content = Find(block, "content")) {
    const Path content_path = path / "content";
    JsonArray blocks;
    if (content->get(blocks) != simdjson::SUCCESS) {
      if (!JoinText(*content, content_path, "\n", text)) return false;
    } else {
      size_t i = 0;
      for (const Json element : blocks) {
        const Path at = content_path[i++];
        JsonObject part;
        std::string_view type;
        std::string_view piece;
        if (!Read(element, at, faults_, part) || !Require(part, "type", at, faults_, type)) return false;
        if (type != "text") {
          if (!UserPart(part, type, at)) return false;
          continue;
        }
        if (!Require(part, "text", at, faults_, piece)) return false;
        if (!text.empty()) text += '\n';
        text += piece;
      }
    }
  }
  if (failed) text.insert(0, "Error: ");
  request_.text_bytes += text.size();
  json_.Open('{')
      .Key("role")
      .String("tool")
      .Key("tool_call_id")
      .String(id)
      .Key("content")
      .String(text)
      .Close('}');
  return true;
}

bool MessagesTranslator::Assistant(Json content, const Path& path) {
  std::string_view only;
  std::string text;
  std::string thinking;
  std::string calls;
  if (content.get(only) == simdjson::SUCCESS) {
    text = only;
  } else {
    JsonArray blocks;
    if (!Read(content, path, faults_, blocks)) return false;
    size_t i = 0;
    for (const Json element : blocks) {
      const Path at = path[i++];
      JsonObject block;
      if (!Read(element, at, faults_, block) || !AssistantBlock(block, at, text, thinking, calls))
        return false;
    }
  }
  request_.text_bytes += text.size() + thinking.size() + calls.size();
  json_.Open('{').Key("role").String("assistant").Key("content");
  if (text.empty() && !calls.empty()) {
    json_.Null();
  } else {
    json_.String(text);
  }
  if (!thinking.empty()) json_.Key("reasoning_content").String(thinking);
  if (!calls.empty()) json_.Key("tool_calls").Open('[').Raw(calls).Close(']');
  json_.Close('}');
  return true;
}

bool MessagesTranslator::AssistantBlock(JsonObject block, const Path& path, std::string& text,
                                        std::string& thinking, std::string& calls) {
  std::string_view type;
  std::string_view piece;
  if (!Require(block, "type", path, faults_, type)) return false;
  if (type == "text") {
    if (!Require(block, "text", path, faults_, piece)) return false;
    text += piece;
    return true;
  }
  if (type == "thinking") {
    if (options_.forward_thinking) thinking += StringOr(block, "thinking");
    return true;
  }
  if (type == "redacted_thinking") return true;
  if (type != "tool_use") {
    return Refuse(path / "type",
                  fmt::format("has the value \"{}\", which is not supported for this model", type));
  }
  std::string_view id;
  if (!Require(block, "id", path, faults_, id) || !Require(block, "name", path, faults_, piece)) return false;
  std::string arguments = "{}";
  if (const auto input = Find(block, "input")) {
    JsonObject object;
    if (!Read(*input, path / "input", faults_, object)) return false;
    arguments = simdjson::minify(object);
  }
  JsonWriter call(calls);
  call.Open('{').Key("id").String(id).Key("type").String("function").Key("function").Open('{');
  call.Key("name").String(piece).Key("arguments").String(arguments).Close('}').Close('}');
  return true;
}

bool MessagesTranslator::Tools(Json value, const Path& path) {
  JsonArray tools;
  if (!Read(value, path, faults_, tools)) return false;
  if (tools.size() == 0) return true;
  const size_t before = request_.body.size();
  json_.Key("tools").Open('[');
  size_t i = 0;
  for (const Json element : tools) {
    const Path at = path[i++];
    JsonObject tool;
    if (!Read(element, at, faults_, tool) || !Tool(tool, at)) return false;
  }
  json_.Close(']');
  request_.text_bytes += request_.body.size() - before;
  return true;
}

bool MessagesTranslator::Tool(JsonObject tool, const Path& path) {
  if (const std::string_view type = StringOr(tool, "type", "custom"); type != "custom") {
    return Refuse(path / "type",
                  fmt::format("has the value \"{}\", a tool that Anthropic runs or defines; give tools with "
                              "'input_schema'",
                              type));
  }
  std::string_view name;
  if (!Require(tool, "name", path, faults_, name)) return false;
  json_.Open('{').Key("type").String("function").Key("function").Open('{').Key("name").String(name);
  if (const auto description = Find(tool, "description")) json_.Key("description").Copy(*description);
  const auto schema = Find(tool, "input_schema");
  if (!schema) return faults_.Missing(path / "input_schema");
  JsonObject object;
  if (!Read(*schema, path / "input_schema", faults_, object)) return false;
  json_.Key("parameters").Copy(object);
  if (const auto strict = Find(tool, "strict")) json_.Key("strict").Copy(*strict);
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
    json_.Key("tool_choice").Open('{').Key("type").String("function").Key("function");
    json_.Open('{').Key("name").String(name).Close('}').Close('}');
  } else if (type == "auto" || type == "any" || type == "none") {
    json_.Key("tool_choice").String(type == "any" ? "required" : type);
  } else {
    return faults_.Add(
        Code::kInvalidValue, path / "type",
        fmt::format("'tool_choice.type' must be \"auto\", \"any\", \"tool\" or \"none\", not \"{}\".", type));
  }
  bool one_at_a_time = false;
  if (const auto flag = Find(choice, "disable_parallel_tool_use")) {
    if (!Read(*flag, path / "disable_parallel_tool_use", faults_, one_at_a_time)) return false;
  }
  if (one_at_a_time) json_.Key("parallel_tool_calls").Bool(false);
  return true;
}

bool MessagesTranslator::Format(Json value, const Path& path) {
  JsonObject format;
  std::string_view type;
  if (!Read(value, path, faults_, format) || !Require(format, "type", path, faults_, type)) return false;
  if (type != "json_schema")
    return Refuse(path / "type", fmt::format("must be \"json_schema\", not \"{}\"", type));
  const auto schema = Find(format, "schema");
  if (!schema) return faults_.Missing(path / "schema");
  json_.Key("response_format").Open('{').Key("type").String("json_schema").Key("json_schema").Open('{');
  json_.Key("name").String("output").Key("schema").Copy(*schema).Key("strict").Bool(true).Close('}').Close(
      '}');
  return true;
}

bool MessagesTranslator::OutputConfig(Json value, const Path& path) {
  JsonObject config;
  if (!Read(value, path, faults_, config)) return false;
  if (const auto format = Find(config, "format"); format && !Format(*format, path / "format")) return false;
  if (const auto effort = Find(config, "effort")) json_.Key("reasoning_effort").Copy(*effort);
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

Translated<ChatRequest> TokenizeFromMessages(std::string_view body, const MessagesOptions& options) {
  return Run(body, options, true);
}

}  // namespace gateway::api
