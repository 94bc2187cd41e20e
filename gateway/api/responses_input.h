// The conversation of a Responses request in chat form. Only for this folder.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/json.h"
#include "gateway/api/responses.h"
#include "gateway/api/responses_tools.h"

namespace gateway::api {

// Writes the member `messages` into `request.body`, instructions first, counts text and images, and adds the
// tools that stand in the conversation to `tools`. Lives for one request, which it does not own; false after
// the first fault.
class ResponsesInput {
 public:
  ResponsesInput(ChatRequest& request, ResponsesTools& tools, Faults& faults)
      : request_(request), tools_(tools), faults_(faults), json_(request.body) {}

  bool Write(JsonObject root);

 private:
  bool Item(JsonObject item, const Path& path);
  bool Message(JsonObject item, const Path& path);
  bool Part(JsonObject part, const Path& path, std::string& parts, std::string& text);
  bool FunctionCall(JsonObject item, const Path& path);
  bool CustomCall(JsonObject item, const Path& path);
  bool SearchCall(JsonObject item, const Path& path);
  bool Output(JsonObject item, const Path& path);
  bool SearchOutput(JsonObject item, const Path& path);
  bool AddedTools(JsonObject item, const Path& path);
  void Call(std::string_view id, std::string_view name, std::string_view arguments);
  void FlushSystem();
  void FlushAssistant();
  void FlushImages();

  ChatRequest& request_;
  ResponsesTools& tools_;
  Faults& faults_;
  JsonWriter json_;
  bool spoken_ = false;  // a message other than the leading system ones was written
  std::string system_;   // leading instructions, joined: some chat templates take one system message only
  bool assistant_ = false;
  std::string assistant_text_;  // an assistant's message and the calls behind it are one message in chat
  std::string calls_;
  std::string images_;  // of tools' outputs, which chat takes from users only
};

}  // namespace gateway::api
