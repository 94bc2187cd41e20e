// Chat completions as the base of the translations: the request to an engine that has no other API, and its
// answer.
//
// Views point into the reader's parser or the text that was read, and hold until the next Read. One reader
// serves one answer or stream at a time, on one thread.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/api/error.h"
#include "gateway/api/json.h"
#include "gateway/api/usage.h"

namespace gateway::api {

template <class T>
using Translated = std::variant<T, ApiError>;

// How a translated stream stands. Only kDone ended cleanly.
enum class StreamState : uint8_t { kRunning, kDone, kFailed };

// What a function that the engine may call is for the client of the Responses API.
struct CalledTool {
  enum class Kind : uint8_t { kFunction, kCustom, kSearch };
  Kind kind = Kind::kFunction;
  std::string called;      // its name for the engine
  std::string name;        // ... and for the client
  std::string space = {};  // the client's namespace; empty: none
};

// A request in chat form. Streams always ask for usage.
struct ChatRequest {
  std::string body;
  bool stream = false;
  bool show_thinking = false;     // the client asked to see what the model thinks (Messages only)
  std::string echo;               // Responses only: members that its answer repeats, as JSON without braces
  std::vector<CalledTool> tools;  // Responses only: those that are no plain functions there, by `called`
  size_t text_bytes = 0;          // of the prompt and the tools; for the estimate of tokens
  size_t images = 0;
};

struct ChatToolCall {
  size_t index = 0;  // in the order of the calls, whatever the engine's own indexes are
  std::string_view id;
  std::string_view name;
  std::string_view arguments;
};

// The first choice of an answer, or of a chunk of one.
struct ChatPiece {
  std::string_view content;
  std::string_view reasoning;
  std::string_view refusal;
  std::vector<ChatToolCall> tool_calls;
  std::string_view finish_reason;  // empty: not ended
  std::string_view stop_text;      // the stop sequence that ended it, if the engine reports it
  std::optional<Usage> usage;
  bool has_choice = false;
};

// Reads a JSON text piece by piece; knows when the outermost object or array has closed.
class CompletionScan {
 public:
  void Feed(std::string_view piece);
  bool complete() const { return complete_; }

 private:
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool complete_ = false;
};

class ChatReader {
 public:
  // kUpstreamError: the upstream's own error (`{"error":…}`), or text that is not a chat answer.
  std::optional<ApiError> Read(std::string_view json, ChatPiece& piece);

 private:
  // A call that the engine is writing. Some engines give every call of a stream the same index, or none.
  struct Call {
    uint64_t index = 0;  // the engine's
    size_t number = 0;   // in the order of the calls
    std::string id = {};
    CompletionScan scan = {};  // of its arguments
  };

  void ReadMessage(JsonObject message, ChatPiece& piece);
  void ReadContent(JsonObject message, ChatPiece& piece);
  void ReadFunction(JsonObject function, ChatToolCall& call);
  size_t NumberOf(uint64_t index, const ChatToolCall& call);

  simdjson::dom::parser parser_;
  std::string mended_;             // an answer with half a surrogate pair
  std::deque<std::string> texts_;  // of the last piece, where the answer has them in another form
  std::vector<Call> calls_;        // the last one of each index
  size_t call_count_ = 0;
};

// A call's arguments as an object. What is none becomes `{"raw_arguments": "…"}`, so that nothing is lost.
void WriteArguments(JsonWriter& json, std::string_view arguments);

// Whether generation ended because the engine failed, not because the answer is complete.
bool IsFailedFinish(std::string_view finish_reason);

// An upstream's error answer, for another protocol: its status, and its message, type and code if the body
// has them in one of the usual forms.
ApiError FromUpstream(int status, std::string_view body);
// Whether it has the form that this protocol's libraries read.
bool IsErrorOf(Protocol protocol, std::string_view body);
// The error that a successful answer, or the data of an event, reports in its member `error`, or is.
std::optional<ApiError> ReportedError(std::string_view answer);
// The same, where the answer has no result beside it, in any protocol: a Responses object that tells why its response
// failed is an answer.
std::optional<ApiError> ErrorWithoutAnswer(std::string_view answer);

// Whether a 400 says, in the words of any engine, that prompt and answer exceed the context of the model.
bool SaysContextExceeded(std::string_view body);

// Whether a 404 says, by its code, that the engine has no model of this name. A message may quote the caller,
// and engines also answer 404 to a path that they do not serve.
bool SaysModelUnknown(std::string_view body, std::string_view model);

}  // namespace gateway::api
