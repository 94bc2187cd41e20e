#include "gateway/routing/answer_text.h"

#include <map>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "gateway/net/sse.h"

namespace gateway::routing {
namespace {

// By choice, because the events of several choices arrive in any order.
using Texts = std::map<int64_t, std::string>;

void Append(const nlohmann::json& object, const char* key, std::string& to) {
  if (!object.is_object()) return;
  if (const auto found = object.find(key); found != object.end() && found->is_string())
    to += found->get_ref<const std::string&>();
}

// Appends the text of a message, or of the part that an event adds to it.
void AppendMessage(const nlohmann::json& message, std::string& to) {
  Append(message, "reasoning_content", to);
  Append(message, "content", to);
  if (!message.is_object() || !message.contains("tool_calls")) return;
  for (const nlohmann::json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function")) continue;
    Append(call["function"], "name", to);
    Append(call["function"], "arguments", to);
  }
}

// Messages has `content`; Responses has `output`, whose items have `content`.
void AppendContent(const nlohmann::json& document, std::string& to) {
  for (const char* list : {"output", "content"}) {
    if (!document.contains(list) || !document[list].is_array()) continue;
    for (const nlohmann::json& item : document[list]) {
      if (!item.is_object()) continue;
      Append(item, "text", to);
      Append(item, "name", to);
      Append(item, "arguments", to);
      if (item.contains("input")) to += item["input"].dump();
      AppendContent(item, to);
    }
  }
}

void Take(const nlohmann::json& document, Texts& texts) {
  if (!document.is_object()) return;
  if (document.contains("choices") && document["choices"].is_array()) {
    for (const nlohmann::json& choice : document["choices"]) {
      if (!choice.is_object()) continue;
      const auto index = choice.find("index");
      std::string& text =
          texts[index != choice.end() && index->is_number_integer() ? index->get<int64_t>() : 0];
      Append(choice, "text", text);
      if (choice.contains("message")) AppendMessage(choice["message"], text);
      if (choice.contains("delta")) AppendMessage(choice["delta"], text);
    }
    return;
  }
  // An event of Messages adds an object, an event of Responses the text itself. An event that ends a part repeats
  // the whole part.
  if (document.contains("delta")) {
    const nlohmann::json& delta = document["delta"];
    Append(document, "delta", texts[0]);
    Append(delta, "text", texts[0]);
    Append(delta, "partial_json", texts[0]);
    return;
  }
  if (document.contains("type") && document["type"] != "message" && document["type"] != "response") return;
  AppendContent(document, texts[0]);
}

}  // namespace

std::string AnswerText(std::string_view body, bool stream) {
  Texts texts;
  if (!stream) Take(conf::ParseJson(body), texts);
  while (stream && !body.empty()) {
    const net::SseEvent event = net::NextSseEvent(body);
    if (event.has_data) Take(conf::ParseJson(event.data), texts);
  }
  std::string all;
  for (const auto& [choice, text] : texts) {
    if (!all.empty()) all += '\0';
    all += text;
  }
  return all;
}

}  // namespace gateway::routing
