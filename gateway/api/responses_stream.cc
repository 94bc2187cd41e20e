#include <fmt/format.h>

#include <algorithm>

#include "gateway/api/json.h"
#include "gateway/api/named_event.h"
#include "gateway/api/responses.h"
#include "gateway/api/responses_shape.h"

namespace gateway::api {
namespace {

// The names of each kind of part in items and events, in the order of ResponsesStream::Kind.
struct PartNames {
  std::string_view id_prefix;
  std::string_view type;
  std::string_view member;  // of the done event
  std::string_view delta_event;
  std::string_view done_event;
};
constexpr PartNames kParts[] = {
    {"msg", "output_text", "text", "response.output_text.delta", "response.output_text.done"},
    {"msg", "refusal", "refusal", "response.refusal.delta", "response.refusal.done"},
    {"rs", "reasoning_text", "text", "response.reasoning_text.delta", "response.reasoning_text.done"},
};

// The same of calls, in the order of CalledTool::Kind. A search has no events of its own.
struct CallNames {
  std::string_view member;
  std::string_view delta_event;
  std::string_view done_event;
};
constexpr CallNames kCalls[] = {
    {"arguments", "response.function_call_arguments.delta", "response.function_call_arguments.done"},
    {"input", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"},
    {"", "", ""},
};

std::string Part(std::string_view type, std::string_view text) {
  std::string part;
  JsonWriter json(part);
  WriteMessagePart(json, type, text);
  return part;
}

}  // namespace

// A named event with its number.
class ResponsesStream::Event : public NamedEvent {
 public:
  Event(ResponsesStream& stream, std::string& out, std::string_view type) : NamedEvent(out, type) {
    json().Key("sequence_number").Number(stream.sequence_++);
  }

  Event& At(const Item& item, size_t index) {
    json().Key("item_id").String(item.id).Key("output_index").Number(index);
    if (item.kind != Kind::kCall) json().Key("content_index").Number(0);
    return *this;
  }
};

void ResponsesStream::OnData(std::string_view chunk, std::string& out) {
  if (state_ != StreamState::kRunning) return;
  if (const auto error = reader_.Read(chunk, piece_)) return OnError(*error, out);
  if (piece_.usage) usage_ = piece_.usage;
  if (!started_) Start(out);
  if (IsFailedFinish(piece_.finish_reason)) {
    return OnError(Make(Code::kUpstreamError, "The model's engine stopped the generation."), out);
  }
  if (!piece_.finish_reason.empty()) finish_reason_ = piece_.finish_reason;
  held_ += piece_.content.size() + piece_.reasoning.size() + piece_.refusal.size();
  for (const ChatToolCall& call : piece_.tool_calls) held_ += call.arguments.size();
  if (held_ > kMaxHeld || items_.size() > kMaxItems) {
    return OnError(Make(Code::kStreamLimit,
                        fmt::format("The answer exceeds {} bytes or {} items.", kMaxHeld, kMaxItems)),
                   out);
  }
  Text(Kind::kReasoning, piece_.reasoning, out);
  Text(Kind::kText, piece_.content, out);
  Text(Kind::kRefusal, piece_.refusal, out);
  for (const ChatToolCall& call : piece_.tool_calls) {
    if (!TakeToolCall(call, out)) {
      return OnError(
          Make(Code::kUpstreamError, "The model's engine sent tool calls that do not fit together."), out);
    }
  }
}

void ResponsesStream::OnDone(std::string& out, const std::optional<Usage>& counted) {
  if (state_ != StreamState::kRunning) return;
  if (finish_reason_.empty()) {
    return OnError(
        Make(Code::kStreamInterrupted, "The model's engine ended the stream before the answer was complete."),
        out);
  }
  if (!nameless_.empty())
    return OnError(Make(Code::kUpstreamError, "The model's engine called a tool without a name."), out);
  const ResponseState state = StateFromFinish(finish_reason_);
  CloseText(state.status, out);
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].closed) CloseItem(i, state.status, out);
  }
  {
    Event event(*this, out, state.status == "completed" ? "response.completed" : "response.incomplete");
    event.json().Key("response");
    WriteResponse(event.json(), identity_, state, Output(), counted ? counted : usage_);
  }
  state_ = StreamState::kDone;
}

void ResponsesStream::OnError(const ApiError& error, std::string& out) {
  if (state_ != StreamState::kRunning) return;
  if (!started_) Start(out);
  {
    Event event(*this, out, "response.failed");
    event.json().Key("response");
    WriteResponse(event.json(), identity_, {.status = "failed", .incomplete_reason = {}, .error = &error},
                  Output(), usage_);
  }
  {
    Event event(*this, out, "error");
    JsonWriter& json = event.json();
    json.Key("code").String(error.code).Key("message").String(error.message).Key("param");
    error.param.empty() ? json.Null() : json.String(error.param);
    const std::string body = RenderError(Protocol::kOpenAi, error, identity_.request_id);
    json.Raw(std::string_view(body).substr(1, body.size() - 2));
  }
  state_ = StreamState::kFailed;
}

void ResponsesStream::Start(std::string& out) {
  started_ = true;
  for (const std::string_view type : {"response.created", "response.in_progress"}) {
    Event event(*this, out, type);
    event.json().Key("response");
    WriteResponse(event.json(), identity_, {.status = "in_progress", .incomplete_reason = {}}, {},
                  std::nullopt);
  }
}

void ResponsesStream::Text(Kind kind, std::string_view text, std::string& out) {
  if (text.empty()) return;
  if (!speaking_ || items_[*speaking_].kind != kind) {
    CloseText("completed", out);
    speaking_ = AddItem(kind, kParts[static_cast<size_t>(kind)].id_prefix);
    Announce(*speaking_, out);
  }
  Item& item = items_[*speaking_];
  item.text += text;
  Event event(*this, out, kParts[static_cast<size_t>(kind)].delta_event);
  event.At(item, *speaking_).json().Key("delta").String(text);
  if (kind == Kind::kText) event.json().Key("logprobs").Raw("[]");
}

// Calls stay open until the end, because an engine may interleave them. False for too many calls.
bool ResponsesStream::TakeToolCall(const ChatToolCall& call, std::string& out) {
  auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
    return item.kind == Kind::kCall && item.call_index == call.index;
  });
  if (found == items_.end()) {
    if (call.name.empty()) return KeepNameless(call);
    if (items_.size() >= kMaxItems) return false;
    CloseText("completed", out);
    Nameless begun = TakeNameless(call.index);
    if (begun.id.empty()) begun.id = call.id;
    CalledTool tool = ToolOf(identity_, call.name);
    const size_t index = AddItem(Kind::kCall, CallIdPrefix(tool));
    found = items_.begin() + static_cast<ptrdiff_t>(index);
    found->call_index = call.index;
    found->call_id = begun.id.empty() ? found->id : begun.id;
    found->tool = std::move(tool);
    Announce(index, out);
    AddArguments(index, begun.arguments, out);
  }
  AddArguments(static_cast<size_t>(found - items_.begin()), call.arguments, out);
  return true;
}

// False for too many calls.
bool ResponsesStream::KeepNameless(const ChatToolCall& call) {
  auto found = std::find_if(nameless_.begin(), nameless_.end(),
                            [&](const Nameless& begun) { return begun.call_index == call.index; });
  if (found == nameless_.end()) {
    if (nameless_.size() >= kMaxItems) return false;
    found = nameless_.insert(found, Nameless{.call_index = call.index, .id = {}, .arguments = {}});
  }
  if (found->id.empty()) found->id = call.id;
  found->arguments += call.arguments;
  return true;
}

ResponsesStream::Nameless ResponsesStream::TakeNameless(size_t call_index) {
  const auto found = std::find_if(nameless_.begin(), nameless_.end(),
                                  [&](const Nameless& begun) { return begun.call_index == call_index; });
  if (found == nameless_.end()) return {};
  Nameless begun = std::move(*found);
  nameless_.erase(found);
  return begun;
}

void ResponsesStream::AddArguments(size_t index, std::string_view arguments, std::string& out) {
  Item& item = items_[index];
  const size_t before = item.text.size();
  if (item.tool.kind == CalledTool::Kind::kCustom) {
    item.input.Feed(arguments, item.text);
  } else {
    item.text += arguments;
  }
  CallDelta(index, std::string_view(item.text).substr(before), out);
}

void ResponsesStream::CallDelta(size_t index, std::string_view delta, std::string& out) {
  const Item& item = items_[index];
  const std::string_view name = kCalls[static_cast<size_t>(item.tool.kind)].delta_event;
  if (delta.empty() || name.empty()) return;
  Event event(*this, out, name);
  event.At(item, index).json().Key("delta").String(delta);
}

size_t ResponsesStream::AddItem(Kind kind, std::string_view id_prefix) {
  const size_t index = items_.size();
  Item& item = items_.emplace_back();
  item.kind = kind;
  item.id = ItemId(id_prefix, identity_.id, index);
  return index;
}

void ResponsesStream::Announce(size_t index, std::string& out) {
  const Item& item = items_[index];
  {
    Event event(*this, out, "response.output_item.added");
    JsonWriter& json = event.json().Key("output_index").Number(index).Key("item");
    if (item.kind == Kind::kCall) {
      WriteCallItem(json, item.tool,
                    {.id = item.id, .status = "in_progress", .call_id = item.call_id, .arguments = ""});
    } else if (item.kind == Kind::kReasoning) {
      WriteReasoningItem(json, item.id, "in_progress", {});
    } else {
      WriteMessageItem(json, item.id, "in_progress", {});
    }
  }
  if (item.kind == Kind::kCall) return;
  Event event(*this, out, "response.content_part.added");
  event.At(item, index).json().Key("part");
  WriteMessagePart(event.json(), kParts[static_cast<size_t>(item.kind)].type, "");
}

void ResponsesStream::CloseText(std::string_view status, std::string& out) {
  if (speaking_) CloseItem(*speaking_, status, out);
  speaking_.reset();
}

void ResponsesStream::CloseItem(size_t index, std::string_view status, std::string& out) {
  Item& item = items_[index];
  JsonWriter json(item.json);
  if (item.kind == Kind::kCall) {
    CloseCall(index, out);
    WriteCallItem(json, item.tool,
                  {.id = item.id, .status = status, .call_id = item.call_id, .arguments = item.text});
  } else {
    const PartNames& names = kParts[static_cast<size_t>(item.kind)];
    {
      Event event(*this, out, names.done_event);
      event.At(item, index).json().Key(names.member).String(item.text);
      if (item.kind == Kind::kText) event.json().Key("logprobs").Raw("[]");
    }
    const std::string part = Part(names.type, item.text);
    Event(*this, out, "response.content_part.done").At(item, index).json().Key("part").Raw(part);
    if (item.kind == Kind::kReasoning) {
      WriteReasoningItem(json, item.id, status, part);
    } else {
      WriteMessageItem(json, item.id, status, part);
    }
  }
  Event(*this, out, "response.output_item.done")
      .json()
      .Key("output_index")
      .Number(index)
      .Key("item")
      .Raw(item.json);
  item.text.clear();
  item.text.shrink_to_fit();
  item.closed = true;
}

void ResponsesStream::CloseCall(size_t index, std::string& out) {
  Item& item = items_[index];
  if (item.tool.kind == CalledTool::Kind::kCustom) {
    const size_t before = item.text.size();
    item.input.Finish(item.text);
    CallDelta(index, std::string_view(item.text).substr(before), out);
  }
  // Clients parse the arguments of a function without parameters, too.
  if (item.tool.kind == CalledTool::Kind::kFunction && item.text.empty()) AddArguments(index, "{}", out);
  const CallNames& names = kCalls[static_cast<size_t>(item.tool.kind)];
  if (names.done_event.empty()) return;
  Event event(*this, out, names.done_event);
  event.At(item, index).json().Key(names.member).String(item.text);
  if (item.tool.kind == CalledTool::Kind::kFunction) event.json().Key("name").String(item.tool.name);
}

// The complete items, for the object that ends the stream.
std::string ResponsesStream::Output() const {
  std::string output;
  JsonWriter json(output);
  for (const Item& item : items_) {
    if (item.closed) json.Raw(item.json);
  }
  return output;
}

}  // namespace gateway::api
