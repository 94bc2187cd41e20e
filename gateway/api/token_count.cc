#include "gateway/api/token_count.h"

#include <fmt/format.h>

#include <iterator>

#include "gateway/api/json.h"

namespace gateway::api {
namespace {

void AppendText(Json value, std::string& text) {
  std::string_view string;
  JsonObject object;
  JsonArray array;
  if (value.get(string) == simdjson::SUCCESS) {
    if (!text.empty()) text += '\n';
    text += string;
  } else if (value.get(object) == simdjson::SUCCESS) {
    for (const auto member : object) {
      if (member.key == "type" || member.key == "image_url") continue;
      AppendText(member.value, text);
    }
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const Json element : array) AppendText(element, text);
  }
}

// All that a chat request says to the model: roles, texts, calls, and the tools as they are described.
std::string TextOf(std::string_view chat) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  std::string text;
  if (!ParseObject(parser, chat, faults, root)) return text;
  for (const char* const member : {"tools", "messages"}) {
    if (const auto value = Find(root, member)) AppendText(*value, text);
  }
  return text;
}

}  // namespace

void AskTokenizer(ChatRequest& request, std::string_view model, Tokenizer tokenizer) {
  if (tokenizer == Tokenizer::kMessages) return;
  const std::string text = TextOf(request.body);
  request.body.clear();
  JsonWriter json(request.body);
  json.Open('{');
  switch (tokenizer) {
    case Tokenizer::kPrompt:
      json.Key("model").String(model).Key("prompt").String(text);
      break;
    case Tokenizer::kContent:
      json.Key("content").String(text).Key("add_special").Bool(true);
      break;
    case Tokenizer::kInputs:
      json.Key("inputs").String(text);
      break;
    case Tokenizer::kMessages:
      break;
  }
  json.Close('}');
}

std::optional<uint64_t> CountFromTokenize(std::string_view answer) {
  simdjson::dom::parser parser;
  JsonArray tokens;
  if (simdjson::dom::element document; parser.parse(answer).get(document) == simdjson::SUCCESS) {
    if (document.get(tokens) == simdjson::SUCCESS) return std::distance(tokens.begin(), tokens.end());
  }
  Faults faults;
  JsonObject root;
  if (!ParseObject(parser, answer, faults, root)) return std::nullopt;
  uint64_t count = 0;
  if (root.at_key("count").get(count) == simdjson::SUCCESS) return count;
  if (root.at_key("tokens").get(tokens) == simdjson::SUCCESS)
    return std::distance(tokens.begin(), tokens.end());
  return std::nullopt;
}

std::string RenderTokenCount(uint64_t input_tokens, Protocol protocol) {
  const std::string_view object =
      protocol == Protocol::kOpenAi ? R"("object":"response.input_tokens",)" : std::string_view();
  return fmt::format("{{{}\"input_tokens\":{}}}", object, input_tokens);
}

uint64_t EstimateTokens(const ChatRequest& request, double bytes_per_token) {
  constexpr uint64_t kTokensPerImage = 1000;
  const double ratio = bytes_per_token > 0 ? bytes_per_token : 4.0;
  return static_cast<uint64_t>(static_cast<double>(request.text_bytes) / ratio) + 1 +
         request.images * kTokensPerImage;
}

}  // namespace gateway::api
