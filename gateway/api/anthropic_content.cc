#include "gateway/api/anthropic_content.h"

#include <fmt/format.h>

#include "gateway/api/chat_request.h"

namespace gateway::api {
namespace {

// What Claude Code puts before the system prompt for Anthropic's accounting. It is another in every request,
// so that no engine would find the prompt behind it in its cache.
bool IsBillingHeader(std::string_view text) {
  return text.starts_with("x-anthropic-billing-header:");
}

}  // namespace

bool MessagesContent::Write(JsonObject root) {
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
    if (role == "user") {
      if (!User(*content, content_path)) return false;
    } else if (role == "assistant") {
      if (!Assistant(*content, content_path)) return false;
    } else if (role == "system") {  // what is said to the model in the midst of a conversation
      if (!System(*content, content_path)) return false;
    } else {
      return faults_.Add(Code::kInvalidValue, at / "role",
                         fmt::format("'{}' must be \"user\", \"assistant\" or \"system\", not \"{}\".",
                                     (at / "role").Text(), role));
    }
  }
  json_.Close(']');
  return true;
}

// The text of a string or of text blocks.
bool MessagesContent::JoinText(Json content, const Path& path, std::string_view between, std::string& into) {
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
    if (type != "text")
      return faults_.Unsupported(at / "type", fmt::format("must be \"text\" here, not \"{}\"", type));
    if (!Require(block, "text", at, faults_, text)) return false;
    if (IsBillingHeader(text)) continue;
    if (!into.empty()) into += between;
    into += text;
  }
  return true;
}

bool MessagesContent::System(Json value, const Path& path) {
  std::string text;
  if (!JoinText(value, path, "\n\n", text)) return false;
  if (text.empty()) return true;
  request_.text_bytes += text.size();
  json_.Open('{').Key("role").String("system").Key("content").String(text).Close('}');
  return true;
}

void MessagesContent::TextPart(std::string_view text) {
  request_.text_bytes += text.size();
  if (part_count_++ == 0) only_text_ = text;
  JsonWriter(parts_).Open('{').Key("type").String("text").Key("text").String(text).Close('}');
}

bool MessagesContent::User(Json content, const Path& path) {
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

// Tool results are written at once, because chat expects them right after the calls; other parts are
// collected.
bool MessagesContent::UserBlocks(JsonArray blocks, const Path& path) {
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

bool MessagesContent::UserPart(JsonObject block, std::string_view type, const Path& path) {
  if (type == "text") {
    std::string_view text;
    if (!Require(block, "text", path, faults_, text)) return false;
    TextPart(text);
    return true;
  }
  if (type == "image") return Image(block, path);
  if (type == "document" || type == "search_result") {
    std::string text;
    if (!(type == "document" ? Document(block, path, text) : SearchResult(block, path, text))) return false;
    TextPart(text);
    return true;
  }
  return faults_.Unsupported(
      path / "type", fmt::format("has the value \"{}\", which is not supported for this model", type));
}

bool MessagesContent::Source(JsonObject block, const Path& path, JsonObject& source, std::string_view& type) {
  const auto value = Find(block, "source");
  if (!value) return faults_.Missing(path);
  return Read(*value, path, faults_, source) && Require(source, "type", path, faults_, type);
}

bool MessagesContent::Image(JsonObject block, const Path& path) {
  const Path source_path = path / "source";
  JsonObject source;
  std::string_view type;
  if (!Source(block, source_path, source, type)) return false;
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
    return faults_.Unsupported(source_path / "type",
                               fmt::format("must be \"base64\" or \"url\", not \"{}\"", type));
  }
  ++request_.images;
  ++part_count_;
  JsonWriter part(parts_);
  part.Open('{').Key("type").String("image_url").Key("image_url").Open('{').Key("url").String(url);
  part.Close('}').Close('}');
  return true;
}

bool MessagesContent::Document(JsonObject block, const Path& path, std::string& text) {
  const Path source_path = path / "source";
  JsonObject source;
  std::string_view type;
  if (!Source(block, source_path, source, type)) return false;
  const std::string_view member = type == "text" ? "data" : "content";
  if (type != "text" && type != "content") {
    return faults_.Unsupported(
        source_path / "type",
        fmt::format("must be \"text\" or \"content\" for a document, not \"{}\"", type));
  }
  const auto content = Find(source, member);
  if (!content) return faults_.Missing(source_path / member);
  const Path content_path = source_path / member;
  for (const char* about : {"title", "context"}) {
    if (const std::string_view words = StringOr(block, about); !words.empty())
      text.append(words).append("\n\n");
  }
  std::string body;
  if (!JoinText(*content, content_path, "\n", body)) return false;
  text += body;
  return true;
}

bool MessagesContent::SearchResult(JsonObject block, const Path& path, std::string& text) {
  std::string_view title;
  std::string_view source;
  if (!Require(block, "title", path, faults_, title) || !Require(block, "source", path, faults_, source))
    return false;
  const auto content = Find(block, "content");
  if (!content) return faults_.Missing(path / "content");
  std::string body;
  if (!JoinText(*content, path / "content", "\n", body)) return false;
  text += fmt::format("{}\n{}\n\n{}", title, source, body);
  return true;
}

// Text becomes the tool's message; images, which a tool's message cannot hold, follow in the user's.
bool MessagesContent::ToolResult(JsonObject block, const Path& path) {
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
        if (!Read(element, at, faults_, part) || !ToolResultPart(part, at, text)) return false;
      }
    }
  }
  if (failed) text.insert(0, "Error: ");
  WriteToolMessage(id, text, request_);
  return true;
}

bool MessagesContent::ToolResultPart(JsonObject part, const Path& path, std::string& text) {
  std::string_view type;
  std::string_view piece;
  if (!Require(part, "type", path, faults_, type)) return false;
  if (type == "tool_reference") {
    if (!Require(part, "tool_name", path, faults_, piece)) return false;
    found_tools_.insert(std::string(piece));
    if (!text.empty()) text += '\n';
    text += fmt::format("The tool {} can be called now.", piece);
    return true;
  }
  if (type != "text" && type != "search_result") return UserPart(part, type, path);
  if (!text.empty()) text += '\n';
  if (type == "search_result") return SearchResult(part, path, text);
  if (!Require(part, "text", path, faults_, piece)) return false;
  text += piece;
  return true;
}

bool MessagesContent::Assistant(Json content, const Path& path) {
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

bool MessagesContent::AssistantBlock(JsonObject block, const Path& path, std::string& text,
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
    return faults_.Unsupported(
        path / "type", fmt::format("has the value \"{}\", which is not supported for this model", type));
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

}  // namespace gateway::api
