// The Messages API for engines that only have chat completions: translates requests, answers and streams.
//
// Pure, without I/O; one stream object serves one answer on one thread. What chat cannot express is refused
// with the path of the field, unless nothing is lost by leaving it out; members that neither API defines (an
// engine's own) pass unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api/chat.h"
#include "gateway/api/error.h"
#include "gateway/api/token_count.h"
#include "gateway/api/usage.h"

namespace gateway::api {

struct MessagesOptions {
  std::string_view model;  // the name by which the engine knows the model
  bool forward_thinking =
      false;                // give earlier thinking back to the model (`reasoning_content`), else drop it
  bool padded = false;      // as in ParseObject
  bool knows_top_k = true;  // the engine takes chat's sampling parameters, and `top_k` beside them
  std::string_view bound = "max_tokens";  // the engine's name of the bound
};

Translated<ChatRequest> ChatFromMessages(std::string_view body, const MessagesOptions& options);

Translated<ChatRequest> TokenizeFromMessages(std::string_view body, const MessagesOptions& options,
                                             Tokenizer tokenizer = Tokenizer::kMessages);

// The parts of the answer that the engine does not know.
struct MessageIdentity {
  std::string id;          // `msg_…`
  std::string model;       // the name that the client asked for
  std::string request_id;  // for stream errors
  bool show_thinking = false;
  uint64_t input_tokens_estimate = 0;  // for a stream's start, if the engine has not counted yet
};

// A tool's arguments that are not a JSON object (an error of the engine, or an answer cut short) become
// `{"raw_arguments": "…"}`, so that nothing is lost. `counted`: told in place of the engine's report.
Translated<std::string> MessageFromChat(std::string_view chat, const MessageIdentity& identity,
                                        const std::optional<Usage>& counted = std::nullopt);

// Translates chat chunks to Messages events. Content blocks strictly follow one another, as the SDKs expect:
// of interleaved tool calls one is streamed and the others wait, in at most kMaxHeld bytes.
//
// The upstream's `[DONE]` goes to OnDone; an upstream that ends without it goes to OnError, and OnDone itself
// fails the stream when no finish reason came before. After kDone or kFailed nothing more is written.
class MessagesStream {
 public:
  static constexpr size_t kMaxHeld = 8 << 20;
  static constexpr size_t kMaxToolCalls = 256;

  explicit MessagesStream(MessageIdentity identity) : identity_(std::move(identity)) {}

  void OnData(std::string_view chunk, std::string& out);  // the JSON of one `data:` line
  // `counted`: told in place of the engine's report.
  void OnDone(std::string& out, const std::optional<Usage>& counted = std::nullopt);
  void OnError(const ApiError& error, std::string& out);

  StreamState state() const { return state_; }
  const std::optional<Usage>& usage() const { return usage_; }

 private:
  enum class Block : uint8_t { kNone, kText, kThinking, kTool };
  struct Tool {
    size_t index = 0;
    std::string id;
    std::string name;
    std::string held;
    CompletionScan scan;
    bool closed = false;
  };

  void Start(std::string& out);
  void Text(Block kind, std::string_view text, std::string& out);
  bool TakeToolCall(const ChatToolCall& call);
  void PumpTools(bool ending, std::string& out);
  void OpenBlock(Block kind, const Tool* tool, std::string& out);
  void Delta(std::string_view text, std::string& out);
  void CloseBlock(std::string& out);
  void FlushLateText(std::string& out);
  bool ToolPending() const { return tool_ < tools_.size(); }
  bool ToolsWhole() const;  // those not yet closed

  MessageIdentity identity_;
  ChatReader reader_;
  ChatPiece piece_;
  StreamState state_ = StreamState::kRunning;
  bool started_ = false;
  Block block_ = Block::kNone;
  size_t blocks_ = 0;        // content blocks begun; the open one is the last
  std::vector<Tool> tools_;  // in the order of appearance
  size_t tool_ = 0;          // the one that is streamed or comes next
  std::string late_text_;    // arrived while a tool call was open
  size_t held_ = 0;
  std::string finish_reason_;
  std::string stop_text_;
  std::optional<Usage> usage_;
};

}  // namespace gateway::api
