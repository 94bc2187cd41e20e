#include "gateway/api/responses_input.h"

#include <fmt/format.h>

#include "gateway/api/chat_request.h"

namespace gateway::api {

bool ResponsesInput::Write(JsonObject root) {
  const Path top;
  const Path path = top / "input";
  json_.Key("messages").Open('[');
  if (const auto instructions = Find(root, "instructions")) {
    std::string_view text;
    if (!Read(*instructions, top / "instructions", faults_, text)) return false;
    system_ = text;
  }
  const auto value = Find(root, "input");
  if (!value) return faults_.Missing(path);
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS) {
    FlushSystem();
    request_.text_bytes += text.size();
    json_.Open('{').Key("role").String("user").Key("content").String(text).Close('}').Close(']');
    return true;
  }
  JsonArray items;
  if (value->get(items) != simdjson::SUCCESS) return faults_.WrongType(path, "a string or an array", *value);
  size_t i = 0;
  for (const Json element : items) {
    const Path at = path[i++];
    JsonObject item;
    if (!Read(element, at, faults_, item) || !Item(item, at)) return false;
  }
  FlushSystem();
  FlushAssistant();
  FlushImages();
  json_.Close(']');
  return true;
}

bool ResponsesInput::Item(JsonObject item, const Path& path) {
  const std::string_view type = StringOr(item, "type", "message");
  if (type == "function_call_output" || type == "custom_tool_call_output") return Output(item, path);
  if (type == "tool_search_output") return SearchOutput(item, path);
  // Thoughts stay with the model that had them; what a search on the web found stands in the answer.
  if (type == "reasoning" || type == "web_search_call") return true;
  if (type == "additional_tools") return AddedTools(item, path);
  FlushImages();
  if (type == "message") return Message(item, path);
  if (type == "function_call") return FunctionCall(item, path);
  if (type == "custom_tool_call") return CustomCall(item, path);
  if (type == "tool_search_call") return SearchCall(item, path);
  if (type == "item_reference") {
    return faults_.Unsupported(path / "type",
                               "is \"item_reference\", but answers are not kept here; send the item itself");
  }
  return faults_.Unsupported(
      path / "type", fmt::format("has the value \"{}\", which is not supported for this model", type));
}

void ResponsesInput::FlushSystem() {
  if (spoken_) return;
  spoken_ = true;
  if (system_.empty()) return;
  request_.text_bytes += system_.size();
  json_.Open('{').Key("role").String("system").Key("content").String(system_).Close('}');
}

void ResponsesInput::FlushAssistant() {
  if (!assistant_) return;
  request_.text_bytes += assistant_text_.size() + calls_.size();
  json_.Open('{').Key("role").String("assistant").Key("content");
  if (assistant_text_.empty() && !calls_.empty()) {
    json_.Null();
  } else {
    json_.String(assistant_text_);
  }
  if (!calls_.empty()) json_.Key("tool_calls").Open('[').Raw(calls_).Close(']');
  json_.Close('}');
  assistant_ = false;
  assistant_text_.clear();
  calls_.clear();
}

void ResponsesInput::FlushImages() {
  if (images_.empty()) return;
  json_.Open('{').Key("role").String("user").Key("content").Open('[').Raw(images_).Close(']').Close('}');
  images_.clear();
}

bool ResponsesInput::Message(JsonObject item, const Path& path) {
  std::string_view role;
  if (!Require(item, "role", path, faults_, role)) return false;
  const bool system = role == "system" || role == "developer";
  if (!system && role != "user" && role != "assistant") {
    return faults_.Add(
        Code::kInvalidValue, path / "role",
        fmt::format("'{}' must be \"user\", \"assistant\", \"system\" or \"developer\", not \"{}\".",
                    (path / "role").Text(), role));
  }
  const Path content_path = path / "content";
  const auto content = Find(item, "content");
  if (!content) return faults_.Missing(content_path);
  std::string text;
  std::string parts;
  std::string_view plain;
  size_t count = 1;
  if (content->get(plain) == simdjson::SUCCESS) {
    text = plain;
  } else {
    JsonArray array;
    if (!Read(*content, content_path, faults_, array)) return false;
    count = 0;
    for (const Json element : array) {
      const Path at = content_path[count++];
      JsonObject part;
      if (!Read(element, at, faults_, part) || !Part(part, at, parts, text)) return false;
    }
  }
  if (role == "assistant") {
    FlushSystem();
    FlushAssistant();
    assistant_ = true;
    assistant_text_ += text;
    return true;
  }
  if (system && !spoken_) {
    if (!system_.empty()) system_ += "\n\n";
    system_ += text;
    return true;
  }
  FlushSystem();
  FlushAssistant();
  request_.text_bytes += text.size();
  json_.Open('{').Key("role").String(system ? "system" : "user").Key("content");
  const bool simple = system || parts.empty() || (count == 1 && !text.empty());
  if (simple) {
    json_.String(text);
  } else {
    json_.Open('[').Raw(parts).Close(']');
  }
  json_.Close('}');
  return true;
}

// Appends the chat form of a part to `parts`, and its text, if it is text, to `text`.
bool ResponsesInput::Part(JsonObject part, const Path& path, std::string& parts, std::string& text) {
  std::string_view type;
  std::string_view value;
  if (!Require(part, "type", path, faults_, type)) return false;
  JsonWriter json(parts);
  if (type == "input_text" || type == "output_text" || type == "text" || type == "refusal") {
    if (!Require(part, type == "refusal" ? "refusal" : "text", path, faults_, value)) return false;
    text += value;
    json.Open('{').Key("type").String("text").Key("text").String(value).Close('}');
    return true;
  }
  if (type == "input_audio") {  // chat has the same part
    if (!Find(part, "input_audio")) return faults_.Missing(path / "input_audio");
    json.Raw(Minified(part));
    return true;
  }
  if (type != "input_image") {
    return faults_.Unsupported(
        path / "type", fmt::format("has the value \"{}\", which is not supported for this model", type));
  }
  if (!Require(part, "image_url", path, faults_, value)) return false;
  ++request_.images;
  json.Open('{').Key("type").String("image_url").Key("image_url").Open('{').Key("url").String(value);
  if (const std::string_view detail = StringOr(part, "detail"); !detail.empty())
    json.Key("detail").String(detail == "original" ? "high" : detail);  // chat has no finer one
  json.Close('}').Close('}');
  return true;
}

bool ResponsesInput::FunctionCall(JsonObject item, const Path& path) {
  std::string_view id;
  std::string_view name;
  std::string_view arguments;
  if (!Require(item, "call_id", path, faults_, id) || !Require(item, "name", path, faults_, name) ||
      !Require(item, "arguments", path, faults_, arguments)) {
    return false;
  }
  Call(id, NameForEngine(StringOr(item, "namespace"), name), arguments);
  return true;
}

bool ResponsesInput::CustomCall(JsonObject item, const Path& path) {
  std::string_view id;
  std::string_view name;
  std::string_view input;
  if (!Require(item, "call_id", path, faults_, id) || !Require(item, "name", path, faults_, name) ||
      !Require(item, "input", path, faults_, input)) {
    return false;
  }
  std::string arguments;
  JsonWriter(arguments).Open('{').Key("input").String(input).Close('}');
  Call(id, NameForEngine(StringOr(item, "namespace"), name), arguments);
  return true;
}

// Searches that OpenAI ran have no call id: their outputs say which tools there are, and that is all.
bool ResponsesInput::SearchCall(JsonObject item, const Path& path) {
  if (!Find(item, "call_id")) return true;
  std::string_view id;
  JsonObject arguments;
  const auto value = Find(item, "arguments");
  if (!Require(item, "call_id", path, faults_, id)) return false;
  if (value && !Read(*value, path / "arguments", faults_, arguments)) return false;
  Call(id, kToolSearch, value ? Minified(arguments) : "{}");
  return true;
}

void ResponsesInput::Call(std::string_view id, std::string_view name, std::string_view arguments) {
  FlushSystem();
  assistant_ = true;
  JsonWriter call(calls_);
  call.Open('{').Key("id").String(id).Key("type").String("function").Key("function").Open('{');
  call.Key("name").String(name).Key("arguments").String(arguments).Close('}').Close('}');
}

bool ResponsesInput::Output(JsonObject item, const Path& path) {
  std::string_view id;
  const Path output_path = path / "output";
  if (!Require(item, "call_id", path, faults_, id)) return false;
  const auto output = Find(item, "output");
  if (!output) return faults_.Missing(output_path);
  FlushSystem();
  FlushAssistant();
  std::string text;
  std::string_view plain;
  if (output->get(plain) == simdjson::SUCCESS) {
    text = plain;
  } else {
    JsonArray array;
    if (!Read(*output, output_path, faults_, array)) return false;
    size_t i = 0;
    for (const Json element : array) {
      const Path at = output_path[i++];
      JsonObject part;
      std::string parts;
      if (!Read(element, at, faults_, part)) return false;
      const std::string_view type = StringOr(part, "type");
      const bool apart = type == "input_image" || type == "input_audio";
      if (!Part(part, at, apart ? images_ : parts, text)) return false;
    }
  }
  WriteToolMessage(id, text, request_);
  return true;
}

bool ResponsesInput::SearchOutput(JsonObject item, const Path& path) {
  const auto tools = Find(item, "tools");
  if (!tools) return faults_.Missing(path / "tools");
  if (!tools_.Add(*tools, path / "tools")) return false;
  if (!Find(item, "call_id")) return true;
  std::string_view id;
  if (!Require(item, "call_id", path, faults_, id)) return false;
  FlushSystem();
  FlushAssistant();
  const std::string& found = tools_.listed();
  WriteToolMessage(id, found.empty() ? "No tool was found." : "These tools can be called now: " + found,
                   request_);
  return true;
}

bool ResponsesInput::AddedTools(JsonObject item, const Path& path) {
  const auto tools = Find(item, "tools");
  return tools ? tools_.Add(*tools, path / "tools") : faults_.Missing(path / "tools");
}

}  // namespace gateway::api
