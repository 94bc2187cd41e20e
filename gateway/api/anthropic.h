// The Messages API for engines that know only chat completions: requests one way, answers and streams the
// other.
//
// Pure, without I/O; one stream object serves one answer on one thread. What chat cannot say is refused with
// the path of the field, never dropped in silence; members that neither API defines (an engine's own) pass
// unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api/chat.h"
#include "gateway/api/error.h"
#include "gateway/api/usage.h"

namespace gateway::api {

struct MessagesOptions {
  std::string_view model;  // the name by which the engine knows the model
  bool forward_thinking =
      false;  // give earlier thinking back to the model (`reasoning_content`), else drop it
};

Translated<ChatRequest> ChatFromMessages(std::string_view body, const MessagesOptions& options);

// What the answer carries that the engine does not know.
struct MessageIdentity {
  std::string id;          // `msg_…`
  std::string model;       // the name that the client asked for
  std::string request_id;  // told in stream errors
  bool show_thinking = false;
  uint64_t input_tokens_estimate = 0;  // told at a stream's start, where the engine has not counted yet
};

// A tool's arguments that are no JSON object (an engine's slip, or an answer cut short) become
// `{"raw_arguments": "…"}`, so that nothing the model said is lost.
Translated<std::string> MessageFromChat(std::string_view chat, const MessageIdentity& identity);

// `count_tokens` by way of the engine: the body for its `/tokenize`, the count in its answer, the client's
// answer.
Translated<ChatRequest> TokenizeFromMessages(std::string_view body, const MessagesOptions& options);
std::optional<uint64_t> CountFromTokenize(std::string_view answer);
std::string RenderTokenCount(uint64_t input_tokens);
// For engines without `/tokenize`. An image counts as a fixed 1,000 tokens.
uint64_t EstimateTokens(const ChatRequest& request, double bytes_per_token);

// Turns chat chunks into Messages events. Content blocks are strictly one after another, as the SDKs expect:
// of tool calls that an engine interleaves, one is streamed and the others wait, in at most kMaxHeld bytes.
//
// The upstream's `[DONE]` goes to OnDone; an upstream that ends without it goes to OnError, and OnDone itself
// fails the stream when no finish reason came before. After kDone or kFailed nothing more is written.
class MessagesStream {
 public:
  static constexpr size_t kMaxHeld = 8 << 20;
  static constexpr size_t kMaxToolCalls = 256;

  explicit MessagesStream(MessageIdentity identity) : identity_(std::move(identity)) {}

  void OnData(std::string_view chunk, std::string& out);  // the JSON of one `data:` line
  void OnDone(std::string& out);
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
  std::string late_text_;    // came while a tool call was open and unfinished
  size_t held_ = 0;
  std::string finish_reason_;
  std::string stop_text_;
  uint64_t deltas_ = 0;  // stands in for the output's tokens where the engine reports none
  std::optional<Usage> usage_;
};

}  // namespace gateway::api
