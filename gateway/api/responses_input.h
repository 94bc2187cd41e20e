// The conversation of a Responses request in chat form. Only for this folder.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/json.h"
#include "gateway/api/responses.h"

namespace gateway::api {

// Writes the member `messages` into `request.body`, instructions first, and counts text and images. Lives for
// one request, which it does not own; false after the first fault.
class ResponsesInput {
 public:
  ResponsesInput(ChatRequest& request, Faults& faults)
      : request_(request), faults_(faults), json_(request.body) {}

  bool Write(JsonObject root);

 private:
  bool Item(JsonObject item, const Path& path);
  bool Message(JsonObject item, const Path& path);
  bool Part(JsonObject part, const Path& path, std::string& parts, std::string& text);
  bool FunctionCall(JsonObject item, const Path& path);
  bool FunctionOutput(JsonObject item, const Path& path);
  void FlushSystem();
  void FlushAssistant();

  ChatRequest& request_;
  Faults& faults_;
  JsonWriter json_;
  bool spoken_ = false;  // a message other than the leading system ones was written
  std::string system_;   // leading instructions, joined: some chat templates take one system message only
  bool assistant_ = false;
  std::string assistant_text_;  // an assistant's message and the calls behind it are one message in chat
  std::string calls_;
};

}  // namespace gateway::api
