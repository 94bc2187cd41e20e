// The Responses API for engines that only have chat completions: translates requests, answers and streams.
//
// Pure, without I/O; one stream object serves one answer on one thread. Tidegate keeps no conversation, so
// fields that need one (`store`, `previous_response_id`, `conversation`, item references) are refused, like
// tools that OpenAI runs itself, but for those that Codex offers unasked; members that neither API defines
// (an engine's own) pass unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api/chat.h"
#include "gateway/api/error.h"
#include "gateway/api/freeform_input.h"
#include "gateway/api/token_count.h"
#include "gateway/api/usage.h"

namespace gateway::api {

// `model` is the name by which the engine knows the model.
// `padded`: as in ParseObject.
Translated<ChatRequest> ChatFromResponses(std::string_view body, std::string_view model, bool padded = false);

// The same for `/v1/responses/input_tokens`: a body for this tokenizer.
Translated<ChatRequest> TokenizeFromResponses(std::string_view body, std::string_view model,
                                              Tokenizer tokenizer, bool padded = false);

// The parts of the answer that the engine does not know.
struct ResponseIdentity {
  std::string id;                      // `resp_…`
  std::string model;                   // the name that the client asked for
  std::string request_id;              // for stream errors
  std::string echo;                    // ChatRequest::echo
  std::vector<CalledTool> tools = {};  // ChatRequest::tools
  int64_t created_at = 0;              // seconds since the Unix epoch
};

// `counted`: told in place of the engine's report.
Translated<std::string> ResponseFromChat(std::string_view chat, const ResponseIdentity& identity,
                                         const std::optional<Usage>& counted = std::nullopt);

// Translates chat chunks to Responses events, numbered from 0. The last events repeat the whole answer, so it
// is kept, in at most kMaxHeld bytes; a longer answer fails the stream.
//
// The upstream's `[DONE]` goes to OnDone; an upstream that ends without it goes to OnError, and OnDone itself
// fails the stream when no finish reason came before. A failure is reported twice: as `response.failed` for
// clients that read events, and as `error` for the SDK, which throws. After either nothing more is written.
class ResponsesStream {
 public:
  static constexpr size_t kMaxHeld = 16 << 20;
  static constexpr size_t kMaxItems = 512;

  explicit ResponsesStream(ResponseIdentity identity) : identity_(std::move(identity)) {}

  void OnData(std::string_view chunk, std::string& out);  // the JSON of one `data:` line
  // `counted`: told in place of the engine's report.
  void OnDone(std::string& out, const std::optional<Usage>& counted = std::nullopt);
  void OnError(const ApiError& error, std::string& out);

  StreamState state() const { return state_; }
  const std::optional<Usage>& usage() const { return usage_; }

 private:
  enum class Kind : uint8_t { kText, kRefusal, kReasoning, kCall };
  struct Item {
    Kind kind = Kind::kText;
    std::string id;
    std::string text;  // of the part, or the call's arguments or input
    std::string call_id;
    CalledTool tool;
    FreeformInput input;    // of a custom tool
    size_t call_index = 0;  // the engine's
    bool closed = false;
    std::string json;  // once closed
  };
  // A call that has no name yet. It becomes an item when its name comes.
  struct Nameless {
    size_t call_index = 0;  // the engine's
    std::string id;
    std::string arguments;
  };
  class Event;

  void Start(std::string& out);
  void Text(Kind kind, std::string_view text, std::string& out);
  bool TakeToolCall(const ChatToolCall& call, std::string& out);
  bool KeepNameless(const ChatToolCall& call);
  Nameless TakeNameless(size_t call_index);
  void AddArguments(size_t index, std::string_view arguments, std::string& out);
  void CallDelta(size_t index, std::string_view delta, std::string& out);
  void CloseCall(size_t index, std::string& out);
  size_t AddItem(Kind kind, std::string_view id_prefix);
  void Announce(size_t index, std::string& out);
  void CloseItem(size_t index, std::string_view status, std::string& out);
  void CloseText(std::string_view status, std::string& out);
  std::string Output() const;

  ResponseIdentity identity_;
  ChatReader reader_;
  ChatPiece piece_;
  StreamState state_ = StreamState::kRunning;
  bool started_ = false;
  uint64_t sequence_ = 0;
  std::vector<Item> items_;  // by output_index
  std::vector<Nameless> nameless_;
  std::optional<size_t> speaking_;  // the open item that is no call
  size_t held_ = 0;
  std::string finish_reason_;
  std::optional<Usage> usage_;
};

}  // namespace gateway::api
