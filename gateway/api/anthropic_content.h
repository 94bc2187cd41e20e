// The conversation of a Messages request in chat form. Only for this folder.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "gateway/api/anthropic.h"
#include "gateway/api/json.h"

namespace gateway::api {

// Writes the member `messages` into `request.body`, the system prompt first, and counts text and images.
// Lives for one request, which it does not own; false after the first fault.
class MessagesContent {
 public:
  MessagesContent(const MessagesOptions& options, ChatRequest& request, Faults& faults)
      : options_(options), request_(request), faults_(faults), json_(request.body) {}

  bool Write(JsonObject root);

  // Whether a tool search has found this tool.
  bool Found(std::string_view tool) const { return found_tools_.contains(std::string(tool)); }

 private:
  bool System(Json value, const Path& path);
  bool User(Json content, const Path& path);
  bool UserBlocks(JsonArray blocks, const Path& path);
  bool UserPart(JsonObject block, std::string_view type, const Path& path);
  bool Source(JsonObject block, const Path& path, JsonObject& source, std::string_view& type);
  bool Image(JsonObject block, const Path& path);
  // Their text is appended.
  bool Document(JsonObject block, const Path& path, std::string& text);
  bool SearchResult(JsonObject block, const Path& path, std::string& text);
  bool ToolResult(JsonObject block, const Path& path);
  bool ToolResultPart(JsonObject part, const Path& path, std::string& text);
  bool Assistant(Json content, const Path& path);
  bool AssistantBlock(JsonObject block, const Path& path, std::string& text, std::string& thinking,
                      std::string& calls);
  bool JoinText(Json content, const Path& path, std::string_view between, std::string& into);
  void TextPart(std::string_view text);

  const MessagesOptions& options_;
  ChatRequest& request_;
  Faults& faults_;
  JsonWriter json_;
  std::string parts_;  // of the user message that is being collected
  size_t part_count_ = 0;
  std::string only_text_;
  absl::flat_hash_set<std::string> found_tools_;
};

}  // namespace gateway::api
