#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/api/chat_request.h"
#include "gateway/api/json.h"
#include "gateway/api/responses.h"
#include "gateway/api/responses_input.h"
#include "gateway/api/responses_tools.h"

namespace gateway::api {
namespace {

// Parameters that need a stored conversation or a service of OpenAI. Refused unless null, false or empty.
struct Refusal {
  std::string_view key;
  std::string_view why;
};
constexpr auto kStateless = std::to_array<Refusal>({
    {"store", "must be false or absent: answers are not kept here"},
    {"previous_response_id",
     "is not supported: answers are not kept here; send the whole conversation as 'input'"},
    {"conversation", "is not supported: conversations are not kept here; send the whole one as 'input'"},
    {"background", "must be false or absent: answers are not kept here"},
    {"prompt", "is not supported: prompt templates are not kept here"},
    {"max_tool_calls", "is not supported: no tools are run here"},
    {"top_logprobs", "is not supported for this model"},
    {"context_management", "is not supported for this model"},
});
// Chat's own parameters that would change the form of the answer during the translation.
constexpr auto kChatParameters = std::to_array<std::string_view>(
    {"n", "messages", "logprobs", "functions", "function_call", "response_format", "stop", "max_tokens",
     "max_completion_tokens", "modalities", "audio", "echo", "best_of", "reasoning_effort"});
// Parameters that are read elsewhere, or that lose nothing when they are left out: labels for accounts and
// caches, and services of OpenAI's own that Codex asks for wherever it is pointed.
constexpr auto kUnneeded = std::to_array<std::string_view>(
    {"model", "input", "instructions", "metadata", "stream_options", "service_tier", "prompt_cache_key",
     "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "client_metadata",
     "access_programs", "tools"});
// Repeated in the answer; the values are the defaults.
struct Echo {
  std::string_view key;
  std::string_view otherwise;
};
constexpr auto kEchoes = std::to_array<Echo>({
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"reasoning", R"({"effort":null,"summary":null})"},
    {"temperature", "1"},
    {"text", R"({"format":{"type":"text"}})"},
    {"tool_choice", R"("auto")"},
    {"tools", "[]"},
    {"top_p", "1"},
    {"user", "null"},
});

bool IsOff(const Refusal& refusal, Json value) {
  bool flag = true;
  uint64_t number = 1;
  return (value.get(flag) == simdjson::SUCCESS && !flag) ||
         (refusal.key == "top_logprobs" && value.get(number) == simdjson::SUCCESS && number == 0);
}

constexpr std::string_view kAllowedTools = "allowed_tools";

class ResponsesTranslator {
 public:
  ResponsesTranslator(std::string_view model, ChatRequest& request)
      : model_(model), request_(request), json_(request.body), tools_(request, faults_) {}

  bool Translate(std::string_view body, bool padded, bool tokenize);
  ApiError fault() && { return *std::move(faults_.first); }

 private:
  bool Member(std::string_view key, Json value, const Path& path);
  bool ToolChoice(Json value, const Path& path);
  bool ToolMode(std::string_view word, const Path& path);
  // Chat has no choice among some of the tools, so no others are offered.
  bool OfferAllowed(JsonObject root);
  bool TextOptions(Json value, const Path& path);
  bool Reasoning(Json value, const Path& path);
  bool Truncation(Json value, const Path& path);
  bool Include(Json value, const Path& path);

  std::string_view model_;
  ChatRequest& request_;
  JsonWriter json_;
  Faults faults_;
  ResponsesTools tools_;
};

bool ResponsesTranslator::Translate(std::string_view body, bool padded, bool tokenize) {
  simdjson::dom::parser parser;
  JsonObject root;
  if (!BeginChat(body, model_, parser, request_, faults_, root, padded)) return false;
  for (const Refusal& refusal : kStateless) {
    if (const auto value = Find(root, refusal.key); value && !IsOff(refusal, *value))
      return faults_.Unsupported(Path() / refusal.key, refusal.why);
  }
  if (const auto tools = Find(root, "tools"); tools && !tools_.Add(*tools, Path() / "tools")) return false;
  if (!ResponsesInput(request_, tools_, faults_).Write(root)) return false;
  if (!OfferAllowed(root)) return false;
  tools_.Write();
  if (tokenize) {
    json_.Key("add_generation_prompt").Bool(true).Close('}');
    return true;
  }
  for (const auto field : root) {
    if (!field.value.is_null() && !Member(field.key, field.value, Path() / field.key)) return false;
  }
  json_.Close('}');
  JsonWriter echo(request_.echo);
  for (const Echo& member : kEchoes) {
    echo.Key(member.key);
    if (const auto value = Find(root, member.key)) {
      echo.Raw(Minified(*value));
    } else {
      echo.Raw(member.otherwise);
    }
  }
  return true;
}

bool ResponsesTranslator::Member(std::string_view key, Json value, const Path& path) {
  const bool stateless =
      std::any_of(kStateless.begin(), kStateless.end(), [key](const Refusal& r) { return r.key == key; });
  if (stateless) return true;  // it is off
  if (std::find(kChatParameters.begin(), kChatParameters.end(), key) != kChatParameters.end()) {
    return faults_.Unsupported(path, "is not a parameter of the Responses API");
  }
  if (key == "stream") return WriteStream(value, path, request_, faults_);
  if (key == "max_output_tokens") {
    json_.Key("max_tokens").Raw(Minified(value));
    return true;
  }
  if (key == "tool_choice") return ToolChoice(value, path);
  if (key == "parallel_tool_calls" && tools_.empty()) return true;  // chat refuses it without tools
  if (key == "text") return TextOptions(value, path);
  if (key == "reasoning") return Reasoning(value, path);
  if (key == "truncation") return Truncation(value, path);
  if (key == "include") return Include(value, path);
  if (std::find(kUnneeded.begin(), kUnneeded.end(), key) != kUnneeded.end()) return true;
  json_.Key(key).Raw(Minified(value));
  return true;
}

bool ResponsesTranslator::OfferAllowed(JsonObject root) {
  const Path top;
  const Path path = top / "tool_choice";
  JsonObject choice;
  JsonArray allowed;
  const auto value = Find(root, "tool_choice");
  if (!value || value->get(choice) != simdjson::SUCCESS || StringOr(choice, "type") != kAllowedTools)
    return true;
  const auto list = Find(choice, "tools");
  const Path list_path = path / "tools";
  if (!list) return faults_.Missing(list_path);
  if (!Read(*list, list_path, faults_, allowed)) return false;
  absl::flat_hash_set<std::string> called;
  size_t i = 0;
  for (const Json element : allowed) {
    const Path at = list_path[i++];
    JsonObject tool;
    std::string_view type;
    std::string_view name;
    if (!Read(element, at, faults_, tool) || !Require(tool, "type", at, faults_, type)) return false;
    if (type != "function" && type != "custom")
      continue;  // of those that are left out, or `tools` was refused
    if (!Require(tool, "name", at, faults_, name)) return false;
    const auto [added, fresh] = called.insert(NameForEngine(StringOr(tool, "namespace"), name));
    if (!tools_.Has(*added)) {
      return faults_.Add(Code::kInvalidValue, at / "name",
                         fmt::format("'{}' names no tool of 'tools': \"{}\".", (at / "name").Text(), name));
    }
  }
  tools_.OfferOnly(called);
  return true;
}

// `word`: auto, none or required.
bool ResponsesTranslator::ToolMode(std::string_view word, const Path& path) {
  if (word != "auto" && word != "none" && word != "required") {
    return faults_.Add(Code::kInvalidValue, path,
                       fmt::format("'{}' must be \"auto\", \"none\", \"required\" or a function, not \"{}\".",
                                   path.Text(), word));
  }
  if (word == "required" && tools_.empty() && tools_.left_out())
    return faults_.Unsupported(path, "is \"required\", but this model cannot call any of the tools");
  // Without tools there is nothing to choose, and chat refuses the member.
  if (!tools_.empty() || word == "required") json_.Key("tool_choice").String(word);
  return true;
}

bool ResponsesTranslator::ToolChoice(Json value, const Path& path) {
  std::string_view word;
  if (value.get(word) == simdjson::SUCCESS) return ToolMode(word, path);
  JsonObject choice;
  if (!Read(value, path, faults_, choice) || !Require(choice, "type", path, faults_, word)) return false;
  if (word == kAllowedTools)
    return Require(choice, "mode", path, faults_, word) && ToolMode(word, path / "mode");
  if (word != "function" && word != "custom") {
    return faults_.Unsupported(
        path / "type",
        fmt::format("must be \"function\", \"custom\" or \"allowed_tools\" for this model, not \"{}\"",
                    word));
  }
  if (!Require(choice, "name", path, faults_, word)) return false;
  WriteToolChoice(NameForEngine(StringOr(choice, "namespace"), word), request_);
  return true;
}

bool ResponsesTranslator::TextOptions(Json value, const Path& path) {
  JsonObject text;
  if (!Read(value, path, faults_, text)) return false;
  if (const auto verbosity = Find(text, "verbosity")) json_.Key("verbosity").Raw(Minified(*verbosity));
  const auto found = Find(text, "format");
  if (!found) return true;
  const Path format_path = path / "format";
  JsonObject format;
  std::string_view type;
  if (!Read(*found, format_path, faults_, format) || !Require(format, "type", format_path, faults_, type)) {
    return false;
  }
  if (type == "text") return true;
  if (type == "json_object") {
    json_.Key("response_format").Raw(R"({"type":"json_object"})");
    return true;
  }
  if (type != "json_schema") {
    return faults_.Unsupported(
        format_path / "type",
        fmt::format("must be \"text\", \"json_object\" or \"json_schema\", not \"{}\"", type));
  }
  if (!Find(format, "schema")) return faults_.Missing(format_path / "schema");
  std::string_view name;
  if (!Require(format, "name", format_path, faults_, name)) return false;
  json_.Key("response_format").Open('{').Key("type").String("json_schema").Key("json_schema").Open('{');
  for (const std::string_view key : {"name", "description", "schema", "strict"}) {
    if (const auto member = Find(format, key)) json_.Key(key).Raw(Minified(*member));
  }
  json_.Close('}').Close('}');
  return true;
}

bool ResponsesTranslator::Reasoning(Json value, const Path& path) {
  JsonObject reasoning;
  if (!Read(value, path, faults_, reasoning)) return false;
  const auto effort = Find(reasoning, "effort");
  return !effort || WriteEffort(*effort, path / "effort", request_, faults_);
}

bool ResponsesTranslator::Truncation(Json value, const Path& path) {
  std::string_view word;
  if (!Read(value, path, faults_, word)) return false;
  // Input is never cut here, which "auto" allows.
  return word == "disabled" || word == "auto" ||
         faults_.Add(Code::kInvalidValue, path,
                     fmt::format("'truncation' must be \"auto\" or \"disabled\", not \"{}\".", word));
}

bool ResponsesTranslator::Include(Json value, const Path& path) {
  JsonArray included;
  if (!Read(value, path, faults_, included)) return false;
  size_t i = 0;
  for (const Json element : included) {
    const Path at = path[i++];
    std::string_view word;
    if (!Read(element, at, faults_, word)) return false;
    // Engines have no encrypted reasoning and run no searches, so a client that asks for them loses nothing.
    if (word != "reasoning.encrypted_content" && !word.starts_with("web_search_call.")) {
      return faults_.Unsupported(
          at, fmt::format("has the value \"{}\", which is not supported for this model", word));
    }
  }
  return true;
}

}  // namespace

Translated<ChatRequest> ChatFromResponses(std::string_view body, std::string_view model, bool padded) {
  ChatRequest request;
  ResponsesTranslator translator(model, request);
  if (!translator.Translate(body, padded, false)) return std::move(translator).fault();
  return request;
}

Translated<ChatRequest> TokenizeFromResponses(std::string_view body, std::string_view model,
                                              Tokenizer tokenizer, bool padded) {
  ChatRequest request;
  ResponsesTranslator translator(model, request);
  if (!translator.Translate(body, padded, true)) return std::move(translator).fault();
  AskTokenizer(request, model, tokenizer);
  return request;
}

}  // namespace gateway::api
