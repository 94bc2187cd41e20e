#include "tools/engine/template.h"

#include <fmt/format.h>

#include "conf/json_parse.h"

namespace tidegate_engine {
namespace {

constexpr uint32_t kImageTokens = 256;

Mark MarkOf(std::string_view role) {
  if (role == "system" || role == "developer") return Mark::kSystem;
  if (role == "assistant") return Mark::kAssistant;
  if (role == "tool" || role == "function") return Mark::kTool;
  return Mark::kUser;
}

void AddJson(const Element& element, Prompt& prompt) {
  prompt.AddText(simdjson::minify(element));
}

// A string, or parts of any dialect: text, images, tool calls and their results.
void AddContent(const Element& content, Prompt& prompt) {
  std::string_view text;
  simdjson::dom::array parts;
  if (content.get(text) == simdjson::SUCCESS) {
    prompt.AddText(text);
  } else if (content.get(parts) == simdjson::SUCCESS) {
    for (Element part : parts) AddContent(part, prompt);
  } else if (content.at_key("text").get(text) == simdjson::SUCCESS) {
    prompt.AddText(text);
  } else if (Element inner; content.at_key("content").get(inner) == simdjson::SUCCESS) {
    AddContent(inner, prompt);
  } else if (content.at_key("output").get(inner) == simdjson::SUCCESS) {
    AddContent(inner, prompt);
  } else if (std::string_view type; content.at_key("type").get(type) == simdjson::SUCCESS &&
                                    type.find("image") != std::string_view::npos) {
    for (uint32_t i = 0; i < kImageTokens; ++i) prompt.AddMark(Mark::kImage);
    Prompt picture(1);  // two different images must not share a prefix
    AddJson(content, picture);
    prompt.AddId(picture.seed() >> 16);
  } else if (content.at_key("name").get(text) == simdjson::SUCCESS) {
    prompt.AddText(text);
    for (std::string_view key : {"arguments", "input"}) {
      if (content.at_key(key).get(inner) != simdjson::SUCCESS) continue;
      std::string_view arguments;
      if (inner.get(arguments) == simdjson::SUCCESS) {
        prompt.AddText(arguments);
      } else {
        AddJson(inner, prompt);
      }
    }
  } else if (!content.is_null()) {
    AddJson(content, prompt);
  }
}

bool IsToolResult(const Element& content) {
  simdjson::dom::array parts;
  if (content.get(parts) != simdjson::SUCCESS) return false;
  for (Element part : parts) {
    std::string_view type;
    if (part.at_key("type").get(type) == simdjson::SUCCESS && type == "tool_result") return true;
  }
  return false;
}

// {"type":"function","function":{"name"…}}, {"type":"function","name"…} or {"name","input_schema"}.
std::optional<Tool> ReadTool(const Element& element, Prompt& prompt) {
  Element body = element;
  Element function;
  if (element.at_key("function").get(function) == simdjson::SUCCESS) body = function;
  std::string_view name;
  if (body.at_key("name").get(name) != simdjson::SUCCESS || name.empty()) return std::nullopt;
  Tool tool{.name = std::string(name), .parameters = nullptr};
  prompt.AddText(name);
  std::string_view description;
  if (body.at_key("description").get(description) == simdjson::SUCCESS) prompt.AddText(description);
  for (std::string_view key : {"parameters", "input_schema"}) {
    Element parameters;
    if (body.at_key(key).get(parameters) != simdjson::SUCCESS) continue;
    std::string text = simdjson::minify(parameters);
    prompt.AddText(text);
    tool.parameters = conf::ParseJson(text);
  }
  return tool;
}

// "auto", "none", "required", {"type":"function","function":{"name"}}, {"type":"function","name"}, and
// Anthropic's
// {"type":"auto"|"any"|"none"|"tool","name"}.
void ReadToolChoice(const Fields& fields, const Element& choice, Generation& out) {
  std::string_view word;
  bool plain = choice.get(word) == simdjson::SUCCESS;
  if (!plain && choice.at_key("type").get(word) != simdjson::SUCCESS) word = "";
  if (word == "none") {
    out.tool_choice = ToolChoice::kNone;
  } else if (word == "auto") {
    out.tool_choice = ToolChoice::kAuto;
  } else if (word == "required" || word == "any") {
    out.tool_choice = ToolChoice::kRequired;
  } else if (!plain && (word == "function" || word == "tool")) {
    std::string_view name;
    if (choice.at_key("function").at_key("name").get(name) != simdjson::SUCCESS &&
        choice.at_key("name").get(name) != simdjson::SUCCESS) {
      return fields.Fail("tool_choice", "tool_choice names no function.");
    }
    out.tool_choice = ToolChoice::kNamed;
    out.tool_name = name;
    bool known = false;
    for (const Tool& tool : out.tools) known = known || tool.name == name;
    if (!known)
      fields.Fail("tool_choice", fmt::format("The tool `{}` of tool_choice is not in tools.", name));
  } else {
    fields.Fail("tool_choice", "tool_choice must be auto, none, required or name a function.");
  }
}

}  // namespace

void AddTools(const Fields& fields, Prompt& prompt, Generation& out) {
  auto list = fields.Get("tools");
  auto choice = fields.Get("tool_choice");
  simdjson::dom::array tools;
  if (list && list->get(tools) != simdjson::SUCCESS) return fields.Fail("tools", "tools must be an array.");
  if (list && tools.size() > 0) {
    prompt.AddMark(Mark::kSystem);
    for (Element element : tools) {
      auto tool = ReadTool(element, prompt);
      if (!tool) return fields.Fail("tools", "Every tool must have a name.");
      out.tools.push_back(std::move(*tool));
    }
    prompt.AddMark(Mark::kEnd);
    out.tool_choice = ToolChoice::kAuto;
  }
  if (choice) ReadToolChoice(fields, *choice, out);
  if (out.tools.empty() && out.tool_choice == ToolChoice::kRequired) {
    fields.Fail("tool_choice", "tool_choice is required but there are no tools.");
  }
  out.parallel_tools = fields.Bool("parallel_tool_calls", true);
}

void AddMessage(std::string_view role, const Element* content, const Element* tool_calls, Prompt& prompt) {
  prompt.AddMark(MarkOf(role));
  if (content != nullptr) AddContent(*content, prompt);
  simdjson::dom::array calls;
  if (tool_calls != nullptr && tool_calls->get(calls) == simdjson::SUCCESS) {
    for (Element call : calls) {
      Element function;
      AddContent(call.at_key("function").get(function) == simdjson::SUCCESS ? function : call, prompt);
    }
  }
  prompt.AddMark(Mark::kEnd);
}

void AddMessages(const Fields& fields, std::string_view key, Prompt& prompt, Generation& out) {
  auto list = fields.Get(key);
  simdjson::dom::array messages;
  if (!list || list->get(messages) != simdjson::SUCCESS || messages.size() == 0) {
    return fields.Fail(key, fmt::format("{} must be an array of at least one message.", key));
  }
  for (Element message : messages) {
    if (!message.is_object())
      return fields.Fail(key, fmt::format("Every item of {} must be an object.", key));
    std::string_view role;
    std::string_view type;
    bool has_role = message.at_key("role").get(role) == simdjson::SUCCESS;
    bool has_type = message.at_key("type").get(type) == simdjson::SUCCESS;
    if (!has_role && !has_type)
      return fields.Fail(key, fmt::format("Every item of {} must have a role.", key));
    out.last_user.clear();
    if (!has_role) {  // a call or its result among the items of the Responses API
      AddMessage(type == "function_call" ? "assistant" : "tool", &message, nullptr, prompt);
      continue;
    }
    Element content;
    Element calls;
    bool has_content = message.at_key("content").get(content) == simdjson::SUCCESS;
    bool has_calls = message.at_key("tool_calls").get(calls) == simdjson::SUCCESS;
    if (!has_content && !has_calls)
      return fields.Fail(key, fmt::format("Every item of {} must have content.", key));
    if (has_content && !content.is_string() && !content.is_array() && !content.is_null()) {
      return fields.Fail(key, "content must be a string or an array of parts.");
    }
    AddMessage(role, has_content ? &content : nullptr, has_calls ? &calls : nullptr, prompt);
    if (role == "user" && has_content && !IsToolResult(content)) out.last_user = ContentText(content);
  }
}

std::string ContentText(const Element& content) {
  std::string_view text;
  if (content.get(text) == simdjson::SUCCESS) return std::string(text);
  std::string all;
  simdjson::dom::array parts;
  if (content.get(parts) != simdjson::SUCCESS) return all;
  for (Element part : parts) {
    if (part.at_key("text").get(text) == simdjson::SUCCESS) all += text;
  }
  return all;
}

}  // namespace tidegate_engine
