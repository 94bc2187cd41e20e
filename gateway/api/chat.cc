#include "gateway/api/chat.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/find.h"

namespace gateway::api {
namespace {

constexpr size_t kMostIndexes = 512;  // of calls in one answer; more than any client is told of

// FastAPI's `detail`: a text, or a list of problems, of which the first is told with its place.
std::string DetailOf(JsonObject object) {
  const std::optional<Json> detail = Find(object, "detail");
  if (!detail) return {};
  if (std::string_view text; detail->get(text) == simdjson::SUCCESS) return std::string(text);
  JsonObject problem;
  if (detail->at(0).get(problem) != simdjson::SUCCESS) return {};
  std::string place;
  if (JsonArray keys; problem.at_key("loc").get(keys) == simdjson::SUCCESS) {
    for (const Json key : keys) {
      std::string_view name;
      if (!place.empty()) place += '.';
      place += key.get(name) == simdjson::SUCCESS ? std::string(name) : Minified(key);
    }
  }
  return fmt::format("{}{}{}", place, place.empty() ? "" : ": ", StringOr(problem, "msg"));
}

// Google's API for clients of OpenAI's puts the object of an error into an array.
std::string_view WithoutArray(std::string_view body) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = body.find_first_not_of(kSpace);
  const size_t end = body.find_last_not_of(kSpace);
  if (begin == end || body[begin] != '[' || body[end] != ']') return body;
  return body.substr(begin + 1, end - begin - 1);
}

// `{"message","type","param","code"}`, where `code` is a string, a number that repeats the status, or absent.
ApiError FromErrorObject(int status, JsonObject object) {
  ApiError error = Make(Code::kUpstreamError, std::string(StringOr(object, "message")));
  error.status = status;
  error.should_retry.reset();
  if (const std::string_view type = StringOr(object, "type"); !type.empty()) error.type = type;
  if (const std::string_view code = StringOr(object, "code"); !code.empty()) error.code = code;
  error.param = StringOr(object, "param");
  int64_t number = 0;
  if (object.at_key("code").get(number) == simdjson::SUCCESS && number >= 400 && number <= 599) {
    error.status = static_cast<int>(number);
  }
  if (error.message.empty()) error.message = DetailOf(object);
  if (error.message.empty()) error.message = "The model's engine reported an error without a message.";
  return error;
}

// FastChat's form, in which the answer itself is the error.
bool IsFlatError(JsonObject root) {
  return StringOr(root, "object") == "error" && Find(root, "message");
}

// The error that an answer reports in its member `error`, or is.
std::optional<ApiError> ErrorIn(JsonObject root) {
  const std::optional<Json> error = Find(root, "error");
  if (!error) {
    if (!IsFlatError(root)) return std::nullopt;
    return FromErrorObject(Info(Code::kUpstreamError).status, root);
  }
  JsonObject object;
  if (error->get(object) == simdjson::SUCCESS)
    return FromErrorObject(Info(Code::kUpstreamError).status, object);
  std::string_view text;
  if (error->get(text) != simdjson::SUCCESS) text = "The model's engine reported an error.";
  return Make(Code::kUpstreamError, std::string(text));
}

}  // namespace

std::optional<ApiError> ChatReader::Read(std::string_view json, ChatPiece& piece) {
  piece = {};
  texts_.clear();
  Faults faults;
  JsonObject root;
  if (!ParseObject(parser_, json, faults, root)) {
    mended_ = WithoutHalfSurrogates(json);
    if (!ParseObject(parser_, mended_, faults, root))
      return Make(Code::kUpstreamError, "The model's engine sent an answer that is not a JSON object.");
    json = mended_;
  }
  if (std::optional<ApiError> error = ErrorIn(root)) return error;
  piece.usage = UsageFromJson(json);
  JsonArray choices;
  if (root.at_key("choices").get(choices) != simdjson::SUCCESS) {
    if (piece.usage) return std::nullopt;
    return Make(Code::kUpstreamError, "The model's engine sent an answer without choices.");
  }
  for (const Json element : choices) {
    JsonObject choice;
    uint64_t index = 0;
    if (element.get(choice) != simdjson::SUCCESS) continue;
    if (choice.at_key("index").get(index) == simdjson::SUCCESS && index != 0) continue;
    piece.has_choice = true;
    piece.finish_reason = StringOr(choice, "finish_reason");
    piece.stop_text = StringOr(choice, "stop_reason", StringOr(choice, "matched_stop"));
    JsonObject message;
    for (const char* key : {"delta", "message"}) {
      if (choice.at_key(key).get(message) == simdjson::SUCCESS) ReadMessage(message, piece);
    }
  }
  return std::nullopt;
}

void ChatReader::ReadMessage(JsonObject message, ChatPiece& piece) {
  piece.reasoning = StringOr(message, "reasoning_content", StringOr(message, "reasoning"));
  ReadContent(message, piece);
  piece.refusal = StringOr(message, "refusal");
  JsonArray calls;
  if (message.at_key("tool_calls").get(calls) != simdjson::SUCCESS) return;
  uint64_t position = 0;
  for (const Json element : calls) {
    JsonObject call;
    JsonObject function;
    if (element.get(call) != simdjson::SUCCESS) continue;
    ChatToolCall read;
    uint64_t index = 0;
    if (call.at_key("index").get(index) != simdjson::SUCCESS) index = position;
    read.id = StringOr(call, "id");
    if (call.at_key("function").get(function) == simdjson::SUCCESS) ReadFunction(function, read);
    read.index = NumberOf(index, read);
    piece.tool_calls.push_back(read);
    ++position;
  }
}

// A text, or Mistral's list of parts: texts, and thoughts that are lists of texts.
void ChatReader::ReadContent(JsonObject message, ChatPiece& piece) {
  piece.content = StringOr(message, "content");
  JsonArray parts;
  if (message.at_key("content").get(parts) != simdjson::SUCCESS) return;
  std::string& text = texts_.emplace_back();
  std::string& thinking = texts_.emplace_back();
  for (const Json element : parts) {
    JsonObject part;
    if (element.get(part) != simdjson::SUCCESS) continue;
    text += StringOr(part, "text");
    thinking += StringOr(part, "thinking");
    JsonArray thoughts;
    if (part.at_key("thinking").get(thoughts) != simdjson::SUCCESS) continue;
    for (const Json thought : thoughts) {
      JsonObject of_text;
      if (thought.get(of_text) == simdjson::SUCCESS) thinking += StringOr(of_text, "text");
    }
  }
  piece.content = text;
  if (!thinking.empty()) piece.reasoning = thinking;
}

// Arguments are a text; some engines send the object that it should hold.
void ChatReader::ReadFunction(JsonObject function, ChatToolCall& call) {
  call.name = StringOr(function, "name");
  call.arguments = StringOr(function, "arguments");
  JsonObject object;
  if (function.at_key("arguments").get(object) == simdjson::SUCCESS)
    call.arguments = texts_.emplace_back(Minified(object));
}

// A named call with another id, or with arguments behind whole ones, is another call, even if its index is not.
size_t ChatReader::NumberOf(uint64_t index, const ChatToolCall& call) {
  auto known =
      std::find_if(calls_.begin(), calls_.end(), [&](const Call& other) { return other.index == index; });
  if (known == calls_.end()) {
    if (calls_.size() == kMostIndexes) return call_count_++;
    known = calls_.insert(known, Call{.index = index, .number = call_count_++});
  } else if (!call.name.empty()) {
    const bool other = call.id.empty() ? known->scan.complete() && !call.arguments.empty()
                                       : !known->id.empty() && known->id != call.id;
    if (other) *known = Call{.index = index, .number = call_count_++};
  }
  if (known->id.empty()) known->id = call.id;
  known->scan.Feed(call.arguments);
  return known->number;
}

void WriteArguments(JsonWriter& json, std::string_view arguments) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject object;
  if (arguments.empty()) {
    json.Raw("{}");
  } else if (ParseObject(parser, arguments, faults, object)) {
    json.Raw(Minified(object));
  } else {
    json.Open('{').Key("raw_arguments").String(arguments).Close('}');
  }
}

bool IsFailedFinish(std::string_view finish_reason) {
  return finish_reason == "abort" || finish_reason == "error";
}

ApiError FromUpstream(int status, std::string_view body) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  ApiError error;
  if (ParseObject(parser, WithoutArray(body), faults, root)) {
    JsonObject object;
    error = FromErrorObject(status, root.at_key("error").get(object) == simdjson::SUCCESS ? object : root);
    if (const std::string_view text = StringOr(root, "error"); !text.empty()) error.message = text;
  } else {
    error = Make(Code::kUpstreamError, fmt::format("The model's engine answered with status {}.", status));
    error.should_retry.reset();
  }
  error.status = status;
  if (status == 400 && SaysContextExceeded(body)) error.code = Info(Code::kContextLengthExceeded).name;
  const bool of_caller = status >= 400 && status < 500 && status != 429;
  if (of_caller && error.type == Info(Code::kUpstreamError).openai_type)
    error.type = Info(Code::kInvalidValue).openai_type;
  return error;
}

std::optional<ApiError> ReportedError(std::string_view answer) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  if (!ParseObject(parser, WithoutArray(answer), faults, root)) return std::nullopt;
  return ErrorIn(root);
}

std::optional<ApiError> ErrorWithoutAnswer(std::string_view answer) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  if (!conf::Contains(answer, "\"error\"") || !ParseObject(parser, WithoutArray(answer), faults, root))
    return std::nullopt;
  for (const char* result : {"choices", "content", "output", "data", "results", "text", "tokens", "object"}) {
    if (Find(root, result) && !IsFlatError(root)) return std::nullopt;
  }
  return ErrorIn(root);
}

bool IsErrorOf(Protocol protocol, std::string_view body) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  JsonObject error;
  if (!ParseObject(parser, body, faults, root) || root.at_key("error").get(error) != simdjson::SUCCESS)
    return false;
  if (protocol == Protocol::kAnthropic && StringOr(root, "type") != "error") return false;
  return !StringOr(error, "message").empty();
}

bool SaysContextExceeded(std::string_view body) {
  for (const std::string_view sign : {"context_length_exceeded", "maximum context length", "max_model_len",
                                      "model's context length", "exceed_context_size_error"}) {
    if (conf::Contains(body, sign)) return true;
  }
  return false;
}

bool SaysModelUnknown(std::string_view body, std::string_view model) {
  simdjson::dom::parser parser;
  Faults faults;
  JsonObject root;
  if (!ParseObject(parser, body, faults, root)) return false;
  JsonObject object;
  const JsonObject error = root.at_key("error").get(object) == simdjson::SUCCESS ? object : root;
  if (StringOr(error, "code") == "model_not_found") return true;
  if (StringOr(error, "type") != "NotFoundError") return false;  // vLLM's, whose code repeats the status
  return StringOr(error, "param") == "model" ||
         StringOr(error, "message") == fmt::format("The model `{}` does not exist.", model);
}

void CompletionScan::Feed(std::string_view piece) {
  for (const char c : piece) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && depth_ > 0) {
      complete_ |= --depth_ == 0;
    }
  }
}

}  // namespace gateway::api
