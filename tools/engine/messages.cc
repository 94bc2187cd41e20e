// The protocol of /v1/messages, in Anthropic's form: input_tokens leaves out what the prefix cache held.
#include "conf/json_text.h"
#include "tools/engine/protocol.h"

namespace tidegate_engine {
namespace {

std::string_view StopReason(const Answer& answer) {
  if (!answer.stopped_by.empty()) return "stop_sequence";
  if (!answer.calls.empty() && answer.finish != Finish::kLength) return "tool_use";
  return answer.finish == Finish::kLength ? "max_tokens" : "end_turn";
}

std::string StopFields(const Answer& answer) {
  return fmt::format(R"("stop_reason":"{}","stop_sequence":{})", StopReason(answer),
                     answer.stopped_by.empty() ? "null" : conf::Quoted(answer.stopped_by));
}

std::string UsageField(const Job& job) {
  if (!job.report_usage) return "";
  Usage usage = job.SentUsage();
  return fmt::format(
      R"(,"usage":{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"output_tokens":{}}})",
      usage.prompt - usage.cached, usage.cached, usage.completion);
}

// call_… as Anthropic names it.
std::string ToolUseId(const Call& call) {
  return "toolu_" + call.id.substr(5);
}

void Open(Job& job, Events& out) {
  out.Named(
      "message_start",
      fmt::format(R"({{"type":"message_start","message":{{"id":"{}","type":"message","role":"assistant",)"
                  R"("content":[],"model":{},"stop_reason":null,"stop_sequence":null{}}}}})",
                  job.id, conf::Quoted(job.model), UsageField(job)));
  out.Named("ping", R"({"type":"ping"})");
}

void CloseBlock(Job& job, Events& out) {
  if (job.open_item == -2) return;
  out.Named("content_block_stop", fmt::format(R"({{"type":"content_block_stop","index":{}}})", job.items++));
  job.open_item = -2;
}

void OpenBlock(Job& job, const Answer& answer, int item, Events& out) {
  CloseBlock(job, out);
  job.open_item = item;
  std::string block = R"({"type":"text","text":""})";
  if (item >= 0) {
    const Call& call = answer.calls[static_cast<size_t>(item)];
    block = fmt::format(R"({{"type":"tool_use","id":"{}","name":{},"input":{{}}}})", ToolUseId(call),
                        conf::Quoted(call.name));
  }
  out.Named(
      "content_block_start",
      fmt::format(R"({{"type":"content_block_start","index":{},"content_block":{}}})", job.items, block));
}

void Token(Job& job, size_t index, Events& out) {
  const Choice& choice = job.choices[index];
  uint32_t token = choice.sent - 1;
  int item = choice.answer.CallOf(token);
  if (job.open_item != item) OpenBlock(job, choice.answer, item, out);
  if (choice.answer.Token(token).empty()) return;
  std::string& event = out.Begin();
  fmt::format_to(
      std::back_inserter(event),
      "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{},\"delta\":{}\"",
      job.items,
      item < 0 ? R"({"type":"text_delta","text":)" : R"({"type":"input_json_delta","partial_json":)");
  conf::AppendEscaped(event, choice.answer.Token(token));
  event += "\"}}\n\n";
  out.End();
}

void Close(Job& job, Events& out) {
  CloseBlock(job, out);
  out.Named("message_delta", fmt::format(R"({{"type":"message_delta","delta":{{{}}}{}}})",
                                         StopFields(job.choices[0].answer), UsageField(job)));
  out.Named("message_stop", R"({"type":"message_stop"})");
}

std::string Body(Job& job) {
  const Answer& answer = job.choices[0].answer;
  std::string content;
  if (answer.calls.empty() || answer.content > 0) {
    content = fmt::format(R"({{"type":"text","text":{}}})", conf::Quoted(answer.Content()));
  }
  for (const Call& call : answer.calls) {
    // Arguments that max_tokens has cut are not JSON any more, so they cannot be shown as an object.
    bool whole = Json::accept(answer.Arguments(call));
    fmt::format_to(std::back_inserter(content), R"({}{{"type":"tool_use","id":"{}","name":{},"input":{}}})",
                   content.empty() ? "" : ",", ToolUseId(call), conf::Quoted(call.name),
                   whole ? answer.Arguments(call) : std::string_view("{}"));
  }
  return fmt::format(R"({{"id":"{}","type":"message","role":"assistant","model":{},"content":[{}],{}{}}})",
                     job.id, conf::Quoted(job.model), content, StopFields(answer), UsageField(job));
}

}  // namespace

const Protocol kMessagesProtocol{"msg_", Open, Token, Close, Body};

}  // namespace tidegate_engine
