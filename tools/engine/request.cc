#include "tools/engine/request.h"

#include <fmt/format.h>

#include "conf/json_parse.h"
#include "tools/engine/fields.h"
#include "tools/engine/template.h"

namespace tidegate_engine {
namespace {

constexpr size_t kMaxPrompts = 4096;

// The body, parsed once; elements point into it.
class Body {
 public:
  Body(Api api, std::string_view text, uint32_t block_size, bool keep_ids)
      : api_(api), block_size_(block_size), keep_ids_(keep_ids) {
    simdjson::dom::object root;
    auto parsed = parser_.parse(text.data(), text.size());
    if (parsed.error() != simdjson::SUCCESS) {
      Fail("", fmt::format("The body is not valid JSON: {}.", simdjson::error_message(parsed.error())));
    } else if (parsed.get(root) != simdjson::SUCCESS) {
      Fail("", "The body must be a JSON object.");
    } else {
      fields_.emplace(root, error_);
    }
  }

  Request Read() {
    Request request = error_ ? Request(*error_) : Dispatch();
    return error_ ? Request(*error_) : std::move(request);
  }

 private:
  Request Dispatch() {
    switch (api_) {
      case Api::kChat:
        return Chat();
      case Api::kCompletions:
        return Completions();
      case Api::kResponses:
        return Responses();
      case Api::kMessages:
        return Messages();
      case Api::kEmbeddings:
        return Embeddings();
      case Api::kRerank:
        return Rerank();
      case Api::kScore:
        return Score();
      case Api::kTokenize:
      case Api::kCountTokens:
        return Tokenize();
      case Api::kDetokenize:
        return Detokenize();
      default:
        return MediaRequest();
    }
  }

  void Fail(std::string param, std::string message) {
    if (!error_)
      error_ = ApiError{.status = 400, .type = {}, .message = std::move(message), .param = std::move(param)};
  }

  std::string Model() { return std::string(fields_->String("model").value_or("")); }

  // The fields that all four text APIs share, besides the prompt.
  Generation Common() {
    Generation out;
    out.api = api_;
    out.model = Model();
    out.stream = fields_->Bool("stream", false);
    if (api_ == Api::kChat || api_ == Api::kCompletions) out.n = fields_->Uint("n", 1).value_or(1);
    if (out.n > 128) Fail("n", fmt::format("n must be at most 128, got {}.", out.n));
    for (const char* key : {"max_completion_tokens", "max_output_tokens", "max_tokens"}) {
      if (auto limit = fields_->Uint(key, 1); limit && !out.max_tokens) out.max_tokens = limit;
    }
    out.min_tokens = fields_->Uint("min_tokens", 0).value_or(0);
    out.ignore_eos = fields_->Bool("ignore_eos", false);
    out.include_stop = fields_->Bool("include_stop_str_in_output", false);
    if (auto seed = fields_->Get("seed")) {
      int64_t value = 0;
      if (seed->get(value) != simdjson::SUCCESS) Fail("seed", "seed must be an integer.");
      out.seed = static_cast<uint64_t>(value);
    }
    if (auto temperature = fields_->Get("temperature")) {
      double value = 0;
      if (temperature->get(value) != simdjson::SUCCESS || value < 0) {
        Fail("temperature", "temperature must be a number of at least 0.");
      }
    }
    out.handover = ReadHandover(*fields_);
    ReadStop(api_ == Api::kMessages ? "stop_sequences" : "stop", out);
    if (auto options = fields_->Object("stream_options")) {
      if (!out.stream) Fail("stream_options", "Stream options can only be defined when `stream=True`.");
      out.include_usage = options->Bool("include_usage", false);
      out.continuous_usage = out.include_usage && options->Bool("continuous_usage_stats", false);
    }
    return out;
  }

  void ReadStop(std::string_view key, Generation& out) {
    auto stop = fields_->Get(key);
    if (!stop) return;
    std::string_view text;
    simdjson::dom::array list;
    if (stop->get(text) == simdjson::SUCCESS) {
      out.stop.emplace_back(text);
    } else if (stop->get(list) == simdjson::SUCCESS) {
      for (Element element : list) {
        if (element.get(text) != simdjson::SUCCESS) return Fail(std::string(key), "stop must hold strings.");
        out.stop.emplace_back(text);
      }
    } else {
      Fail(std::string(key), "stop must be a string or an array of strings.");
    }
    std::erase(out.stop, "");
  }

  // {"type":"json_object"}, {"type":"json_schema","json_schema":{"schema"}} or, in the Responses API,
  // {"…","schema"}.
  void ReadFormat(const Fields& fields, std::string_view key, Generation& out) {
    auto format = fields.Object(key);
    if (!format) return;
    std::string_view type = format->String("type").value_or("");
    if (type == "json_object") {
      out.schema =
          Json{{"type", "object"},
               {"properties", {{"summary", {{"type", "string"}}}, {"score", {{"type", "integer"}}}}}};
    } else if (type == "json_schema") {
      auto inner = format->Object("json_schema");
      auto schema = inner ? inner->Get("schema") : format->Get("schema");
      if (!schema) return Fail(std::string(key), "A json_schema format needs a schema.");
      out.schema = conf::ParseJson(simdjson::minify(*schema));
    } else if (type != "text") {
      Fail(std::string(key),
           fmt::format("{}.type must be text, json_object or json_schema, got `{}`.", key, type));
    }
  }

  Request Chat() {
    Generation out = Common();
    Prompt prompt(block_size_, keep_ids_);
    AddTools(*fields_, prompt, out);
    AddMessages(*fields_, "messages", prompt, out);
    prompt.AddMark(Mark::kAssistant);
    ReadFormat(*fields_, "response_format", out);
    out.prompts.push_back(std::move(prompt));
    return out;
  }

  Request Completions() {
    Generation out = Common();
    out.echo = fields_->Bool("echo", false);
    ReadFormat(*fields_, "response_format", out);
    ReadTexts("prompt", out.prompts, out.echo ? &out.prompt_texts : nullptr);
    return out;
  }

  Request Responses() {
    if (auto previous = fields_->String("previous_response_id")) {
      error_ = ApiError{.status = 404,
                        .type = {},
                        .message = fmt::format("Response with id '{}' not found.", *previous),
                        .param = "previous_response_id"};
      return *error_;
    }
    Generation out = Common();
    Prompt prompt(block_size_, keep_ids_);
    AddTools(*fields_, prompt, out);
    if (auto instructions = fields_->Get("instructions"))
      AddMessage("system", &*instructions, nullptr, prompt);
    auto input = fields_->Get("input");
    if (input && input->is_string()) {
      AddMessage("user", &*input, nullptr, prompt);
      out.last_user = ContentText(*input);
    } else {
      AddMessages(*fields_, "input", prompt, out);
    }
    prompt.AddMark(Mark::kAssistant);
    if (auto text = fields_->Object("text")) ReadFormat(*text, "format", out);
    out.prompts.push_back(std::move(prompt));
    return out;
  }

  Request Messages() {
    Generation out = Common();
    if (!out.max_tokens) Fail("max_tokens", "max_tokens: Field required");
    out.prompts.push_back(AnthropicPrompt(out, keep_ids_));
    return out;
  }

  Prompt AnthropicPrompt(Generation& out, bool keep_ids) {
    Prompt prompt(block_size_, keep_ids);
    AddTools(*fields_, prompt, out);
    if (auto system = fields_->Get("system")) AddMessage("system", &*system, nullptr, prompt);
    AddMessages(*fields_, "messages", prompt, out);
    prompt.AddMark(Mark::kAssistant);
    return prompt;
  }

  // A string, an array of strings, an array of token ids, or an array of those.
  void ReadTexts(std::string_view key, std::vector<Prompt>& prompts, std::vector<std::string>* texts) {
    auto element = fields_->Get(key);
    if (!element) return Fail(std::string(key), fmt::format("{} is required.", key));
    simdjson::dom::array list;
    if (element->get(list) != simdjson::SUCCESS) return ReadText(key, *element, prompts, texts);
    if (list.size() == 0) return Fail(std::string(key), fmt::format("{} must not be empty.", key));
    if ((*list.begin()).is_number()) return ReadText(key, *element, prompts, texts);
    for (Element item : list) ReadText(key, item, prompts, texts);
    if (prompts.size() > kMaxPrompts)
      Fail(std::string(key), fmt::format("At most {} items in {}.", kMaxPrompts, key));
  }

  void ReadText(std::string_view key, const Element& element, std::vector<Prompt>& prompts,
                std::vector<std::string>* texts) {
    Prompt prompt(block_size_, keep_ids_);
    std::string plain;
    std::string_view text;
    simdjson::dom::array ids;
    if (element.get(text) == simdjson::SUCCESS) {
      prompt.AddText(text);
      plain = text;
    } else if (element.get(ids) == simdjson::SUCCESS) {
      for (Element item : ids) {
        uint64_t id = 0;
        if (item.get(id) != simdjson::SUCCESS)
          return Fail(std::string(key), "A prompt's token ids must be integers.");
        prompt.AddId(id);
        plain += TokenText(id);
      }
    } else if (element.is_object()) {  // {"text":…}, as rerank and chat-like embeddings send
      plain = ContentText(element);
      if (element.at_key("text").get(text) == simdjson::SUCCESS) plain = text;
      prompt.AddText(plain);
    } else {
      return Fail(std::string(key), fmt::format("{} must be text or token ids.", key));
    }
    if (prompt.tokens() == 0) return Fail(std::string(key), fmt::format("{} must not be empty.", key));
    prompts.push_back(std::move(prompt));
    if (texts != nullptr) texts->push_back(std::move(plain));
  }

  Request Embeddings() {
    Pooling out;
    out.api = api_;
    out.model = Model();
    std::string_view format = fields_->String("encoding_format").value_or("float");
    if (format != "float" && format != "base64") {
      Fail("encoding_format", fmt::format("encoding_format must be float or base64, got `{}`.", format));
    }
    out.base64 = format == "base64";
    out.dimensions = fields_->Uint("dimensions", 1).value_or(0);
    if (out.dimensions > 16384) Fail("dimensions", "dimensions must be at most 16384.");
    ReadTexts("input", out.prompts, nullptr);
    return out;
  }

  Request Rerank() {
    Pooling out;
    out.api = api_;
    out.model = Model();
    out.top_n = fields_->Uint("top_n", 0).value_or(0);
    std::string query(fields_->String("query").value_or(""));
    if (query.empty()) Fail("query", "query is required.");
    std::vector<Prompt> documents;
    ReadTexts("documents", documents, &out.documents);
    Pair({query}, out.documents, out);
    return out;
  }

  Request Score() {
    Pooling out;
    out.api = api_;
    out.model = Model();
    std::vector<Prompt> ignored;
    std::vector<std::string> left;
    std::vector<std::string> right;
    ReadTexts("text_1", ignored, &left);
    ReadTexts("text_2", ignored, &right);
    if (left.size() != 1 && left.size() != right.size()) {
      Fail("text_1", fmt::format("text_1 must be one text or as many as text_2 ({}), got {}.", right.size(),
                                 left.size()));
      return out;
    }
    Pair(left, right, out);
    return out;
  }

  void Pair(const std::vector<std::string>& left, const std::vector<std::string>& right, Pooling& out) {
    for (size_t i = 0; i < right.size(); ++i) {
      Prompt prompt(block_size_, keep_ids_);
      prompt.AddText(left.size() == 1 ? left[0] : left[i]);
      prompt.AddMark(Mark::kEnd);
      prompt.AddText(right[i]);
      out.prompts.push_back(std::move(prompt));
    }
  }

  Request Tokenize() {
    Counting out;
    out.api = api_;
    out.model = Model();
    Generation shape;
    if (api_ == Api::kCountTokens) {
      out.prompt = AnthropicPrompt(shape, true);
    } else if (fields_->Get("messages")) {
      AddTools(*fields_, out.prompt, shape);
      AddMessages(*fields_, "messages", out.prompt, shape);
      if (fields_->Bool("add_generation_prompt", true)) out.prompt.AddMark(Mark::kAssistant);
    } else if (auto text = fields_->String("prompt")) {
      out.prompt.AddText(*text);
    } else {
      Fail("prompt", "prompt or messages is required.");
    }
    return out;
  }

  Request Detokenize() {
    Counting out;
    out.api = api_;
    out.model = Model();
    auto tokens = fields_->Get("tokens");
    simdjson::dom::array ids;
    if (!tokens || tokens->get(ids) != simdjson::SUCCESS)
      Fail("tokens", "tokens must be an array of integers.");
    if (error_) return out;
    for (Element item : ids) {
      uint64_t id = 0;
      if (item.get(id) != simdjson::SUCCESS) Fail("tokens", "tokens must be an array of integers.");
      out.text += TokenText(id);
    }
    return out;
  }

  Request MediaRequest() {
    Media out;
    out.api = api_;
    out.model = Model();
    out.n = fields_->Uint("n", 1).value_or(1);
    if (out.n > 10) Fail("n", fmt::format("n must be at most 10, got {}.", out.n));
    std::string_view key = api_ == Api::kSpeech ? "input" : "prompt";
    out.input = fields_->String(key).value_or("");
    if (out.input.empty()) Fail(std::string(key), fmt::format("{} is required.", key));
    return out;
  }

  Api api_;
  uint32_t block_size_;
  bool keep_ids_;
  simdjson::dom::parser parser_;
  std::optional<ApiError> error_;
  std::optional<Fields> fields_;
};

}  // namespace

Request ParseRequest(Api api, std::string_view body, uint32_t block_size, bool keep_ids) {
  return Body(api, body, block_size, keep_ids).Read();
}

}  // namespace tidegate_engine
