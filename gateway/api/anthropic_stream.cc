#include <fmt/format.h>

#include <algorithm>

#include "gateway/api/anthropic.h"
#include "gateway/api/anthropic_shape.h"
#include "gateway/api/json.h"
#include "gateway/api/named_event.h"

namespace gateway::api {
namespace {

using Event = NamedEvent;

}  // namespace

void MessagesStream::OnData(std::string_view chunk, std::string& out) {
  if (state_ != StreamState::kRunning) return;
  if (const auto error = reader_.Read(chunk, piece_)) return OnError(*error, out);
  if (piece_.usage) usage_ = piece_.usage;
  if (!started_) Start(out);
  if (IsFailedFinish(piece_.finish_reason)) {
    return OnError(Make(Code::kUpstreamError, "The model's engine stopped the generation."), out);
  }
  if (!piece_.finish_reason.empty()) {
    finish_reason_ = piece_.finish_reason;
    stop_text_ = piece_.stop_text;
  }
  if (identity_.show_thinking) Text(Block::kThinking, piece_.reasoning, out);
  Text(Block::kText, piece_.content, out);
  Text(Block::kText, piece_.refusal, out);
  for (const ChatToolCall& call : piece_.tool_calls) {
    if (!TakeToolCall(call)) {
      return OnError(
          Make(Code::kUpstreamError, "The model's engine sent tool calls that do not fit together."), out);
    }
  }
  PumpTools(false, out);
  if (held_ > kMaxHeld) {
    OnError(Make(Code::kStreamLimit, fmt::format("Interleaved tool calls exceed {} bytes.", kMaxHeld)), out);
  }
}

void MessagesStream::OnDone(std::string& out, const std::optional<Usage>& counted) {
  if (state_ != StreamState::kRunning) return;
  if (finish_reason_.empty()) {
    return OnError(
        Make(Code::kStreamInterrupted, "The model's engine ended the stream before the answer was complete."),
        out);
  }
  const bool nameless =
      std::any_of(tools_.begin(), tools_.end(), [](const Tool& t) { return t.name.empty(); });
  if (nameless)
    return OnError(Make(Code::kUpstreamError, "The model's engine called a tool without a name."), out);
  PumpTools(true, out);
  FlushLateText(out);
  CloseBlock(out);
  {
    Event event(out, "message_delta");
    event.json().Key("delta").Open('{');
    WriteStop(event.json(), MessagesStopReason(finish_reason_, !tools_.empty(), !stop_text_.empty()),
              stop_text_);
    event.json().Close('}').Key("usage");
    WriteMessagesUsage(event.json(), counted ? *counted : usage_.value_or(Usage{}));
  }
  {
    const Event stop(out, "message_stop");
  }
  state_ = StreamState::kDone;
}

void MessagesStream::OnError(const ApiError& error, std::string& out) {
  if (state_ != StreamState::kRunning) return;
  out += RenderStreamError(Protocol::kAnthropic, error, identity_.request_id);
  state_ = StreamState::kFailed;
}

void MessagesStream::Start(std::string& out) {
  started_ = true;
  Event event(out, "message_start");
  event.json().Key("message").Open('{').Key("id").String(identity_.id).Key("type").String("message");
  event.json().Key("role").String("assistant").Key("model").String(identity_.model);
  event.json().Key("content").Raw("[]").Key("stop_reason").Null().Key("stop_sequence").Null().Key("usage");
  WriteMessagesUsage(event.json(), usage_.value_or(Usage{.input = identity_.input_tokens_estimate}));
  event.json().Close('}');
}

void MessagesStream::Text(Block kind, std::string_view text, std::string& out) {
  if (text.empty()) return;
  if (!ToolsWhole()) {
    if (kind != Block::kText) return;
    late_text_ += text;
    held_ += text.size();
    return;
  }
  PumpTools(true, out);
  FlushLateText(out);
  if (block_ != kind) {
    CloseBlock(out);
    OpenBlock(kind, nullptr, out);
  }
  Delta(text, out);
}

bool MessagesStream::ToolsWhole() const {
  return std::all_of(tools_.begin() + static_cast<ptrdiff_t>(tool_), tools_.end(),
                     [](const Tool& tool) { return !tool.name.empty() && tool.scan.complete(); });
}

void MessagesStream::FlushLateText(std::string& out) {
  if (late_text_.empty()) return;
  CloseBlock(out);
  OpenBlock(Block::kText, nullptr, out);
  Delta(late_text_, out);
  held_ -= late_text_.size();
  late_text_.clear();
}

// Adds a piece to its call. False for a piece of a closed call, and for too many calls.
bool MessagesStream::TakeToolCall(const ChatToolCall& call) {
  auto tool =
      std::find_if(tools_.begin(), tools_.end(), [&](const Tool& t) { return t.index == call.index; });
  if (tool == tools_.end()) {
    if (tools_.size() == kMaxToolCalls) return false;
    tool = tools_.insert(tool, Tool{});
    tool->index = call.index;
  }
  if (tool->closed) return call.arguments.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (tool->id.empty()) tool->id = call.id;
  if (tool->name.empty()) tool->name = call.name;
  tool->held += call.arguments;
  held_ += call.arguments.size();
  tool->scan.Feed(call.arguments);
  return true;
}

// Writes what the current call holds; moves on when it is complete and another waits (or the stream ends).
void MessagesStream::PumpTools(bool ending, std::string& out) {
  while (ToolPending()) {
    Tool& tool = tools_[tool_];
    if (tool.name.empty()) return;
    if (block_ != Block::kTool) {
      CloseBlock(out);
      tool.id = ToolUseId(tool.id, identity_.id, tool_);
      OpenBlock(Block::kTool, &tool, out);
    }
    if (!tool.held.empty()) Delta(tool.held, out);
    held_ -= tool.held.size();
    tool.held.clear();
    if (!ending && !(tool.scan.complete() && tool_ + 1 < tools_.size())) return;
    CloseBlock(out);
    tool.closed = true;
    ++tool_;
  }
}

void MessagesStream::OpenBlock(Block kind, const Tool* tool, std::string& out) {
  block_ = kind;
  Event event(out, "content_block_start");
  JsonWriter& json = event.json();
  json.Key("index").Number(blocks_++).Key("content_block").Open('{').Key("type");
  if (kind == Block::kTool) {
    json.String("tool_use").Key("id").String(tool->id).Key("name").String(tool->name).Key("input").Raw("{}");
  } else if (kind == Block::kThinking) {
    json.String("thinking").Key("thinking").String("").Key("signature").String("");
  } else {
    json.String("text").Key("text").String("");
  }
  json.Close('}');
}

void MessagesStream::Delta(std::string_view text, std::string& out) {
  struct Names {
    std::string_view type;
    std::string_view member;
  };
  const Names names = block_ == Block::kTool       ? Names{"input_json_delta", "partial_json"}
                      : block_ == Block::kThinking ? Names{"thinking_delta", "thinking"}
                                                   : Names{"text_delta", "text"};
  Event event(out, "content_block_delta");
  event.json().Key("index").Number(blocks_ - 1).Key("delta").Open('{').Key("type").String(names.type);
  event.json().Key(names.member).String(text).Close('}');
}

void MessagesStream::CloseBlock(std::string& out) {
  if (block_ == Block::kNone) return;
  block_ = Block::kNone;
  Event event(out, "content_block_stop");
  event.json().Key("index").Number(blocks_ - 1);
}

}  // namespace gateway::api
