// The protocol of /v1/responses: typed events with sequence numbers; the last one carries the whole response.
#include "conf/json_text.h"
#include "tools/engine/protocol.h"

namespace tidegate_engine {
namespace {

std::string MessageItem(const Job& job, std::string_view text, std::string_view status, bool with_part) {
  std::string part;
  if (with_part)
    part = fmt::format(R"({{"type":"output_text","text":{},"annotations":[],"logprobs":[]}})",
                       conf::Quoted(text));
  return fmt::format(R"({{"type":"message","id":"msg_{}","role":"assistant","status":"{}","content":[{}]}})",
                     job.id.substr(5), status, part);
}

std::string CallItem(const Call& call, std::string_view arguments, std::string_view status) {
  return fmt::format(
      R"({{"type":"function_call","id":"fc_{}","call_id":"{}","name":{},"arguments":{},"status":"{}"}})",
      call.id.substr(5), call.id, conf::Quoted(call.name), conf::Quoted(arguments), status);
}

bool Incomplete(const Job& job) {
  return job.choices[0].answer.finish == Finish::kLength;
}

std::string Output(const Job& job) {
  const Answer& answer = job.choices[0].answer;
  std::string_view status = Incomplete(job) ? "incomplete" : "completed";
  std::string output;
  if (answer.calls.empty() || answer.content > 0) output = MessageItem(job, answer.Content(), status, true);
  for (const Call& call : answer.calls) {
    if (!output.empty()) output += ',';
    output += CallItem(call, answer.Arguments(call), status);
  }
  return output;
}

std::string Response(const Job& job, bool ended) {
  std::string usage = "null";
  if (ended && job.report_usage) {
    Usage counted = job.SentUsage();
    usage =
        fmt::format(R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}}},"output_tokens":{},)"
                    R"("output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}})",
                    counted.prompt, counted.cached, counted.completion, counted.prompt + counted.completion);
  }
  std::string_view status = !ended ? "in_progress" : Incomplete(job) ? "incomplete" : "completed";
  std::string limit = job.request.max_tokens ? std::to_string(*job.request.max_tokens) : "null";
  return fmt::format(
      R"({{"id":"{}","object":"response","created_at":{},"status":"{}","error":null,"incomplete_details":{},)"
      R"("instructions":null,"max_output_tokens":{},"metadata":{{}},"model":{},"output":[{}],)"
      R"("parallel_tool_calls":{},"previous_response_id":null,"temperature":1.0,"tool_choice":"auto","tools":[],)"
      R"("top_p":1.0,"background":false,"service_tier":"auto","truncation":"disabled","usage":{},"user":null}})",
      job.id, job.created, status, ended && Incomplete(job) ? R"({"reason":"max_output_tokens"})" : "null",
      limit, conf::Quoted(job.model), ended ? Output(job) : "", job.request.parallel_tools, usage);
}

// An event of `type` with the further fields, which begin with a comma.
void Send(Job& job, std::string_view type, std::string_view fields, Events& out) {
  fmt::format_to(std::back_inserter(out.Begin()),
                 "event: {}\ndata: {{\"type\":\"{}\",\"sequence_number\":{}{}}}\n\n", type, type,
                 job.event_number++, fields);
  out.End();
}

std::string ItemId(const Job& job, const Answer& answer) {
  if (job.open_item < 0) return "msg_" + job.id.substr(5);
  return "fc_" + answer.calls[static_cast<size_t>(job.open_item)].id.substr(5);
}

// "item_id" and its place.
std::string Place(const Job& job, const Answer& answer) {
  return fmt::format(R"(,"item_id":"{}","output_index":{}{})", ItemId(job, answer), job.items,
                     job.open_item < 0 ? R"(,"content_index":0)" : "");
}

void Open(Job& job, Events& out) {
  std::string response = ",\"response\":" + Response(job, false);
  Send(job, "response.created", response, out);
  Send(job, "response.in_progress", response, out);
}

void CloseItem(Job& job, const Answer& answer, Events& out) {
  if (job.open_item == -2) return;
  std::string place = Place(job, answer);
  std::string_view status = Incomplete(job) ? "incomplete" : "completed";
  std::string item;
  if (job.open_item == -1) {
    std::string text = conf::Quoted(answer.Content());
    Send(job, "response.output_text.done", fmt::format(R"({},"text":{},"logprobs":[])", place, text), out);
    Send(job, "response.content_part.done",
         fmt::format(R"({},"part":{{"type":"output_text","text":{},"annotations":[],"logprobs":[]}})", place,
                     text),
         out);
    item = MessageItem(job, answer.Content(), status, true);
  } else {
    const Call& call = answer.calls[static_cast<size_t>(job.open_item)];
    Send(job, "response.function_call_arguments.done",
         fmt::format(R"({},"name":{},"arguments":{})", place, conf::Quoted(call.name),
                     conf::Quoted(answer.Arguments(call))),
         out);
    item = CallItem(call, answer.Arguments(call), status);
  }
  Send(job, "response.output_item.done", fmt::format(R"(,"output_index":{},"item":{})", job.items++, item),
       out);
  job.open_item = -2;
}

void OpenItem(Job& job, const Answer& answer, int item, Events& out) {
  CloseItem(job, answer, out);
  job.open_item = item;
  std::string text = item < 0 ? MessageItem(job, "", "in_progress", false)
                              : CallItem(answer.calls[static_cast<size_t>(item)], "", "in_progress");
  Send(job, "response.output_item.added", fmt::format(R"(,"output_index":{},"item":{})", job.items, text),
       out);
  if (item >= 0) return;
  Send(job, "response.content_part.added",
       Place(job, answer) + R"(,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]})",
       out);
}

void Token(Job& job, size_t index, Events& out) {
  const Choice& choice = job.choices[index];
  uint32_t token = choice.sent - 1;
  int item = choice.answer.CallOf(token);
  if (job.open_item != item) OpenItem(job, choice.answer, item, out);
  if (choice.answer.Token(token).empty()) return;
  Send(job, item < 0 ? "response.output_text.delta" : "response.function_call_arguments.delta",
       fmt::format(R"({},"delta":{}{})", Place(job, choice.answer), conf::Quoted(choice.answer.Token(token)),
                   item < 0 ? R"(,"logprobs":[])" : ""),
       out);
}

void Close(Job& job, Events& out) {
  CloseItem(job, job.choices[0].answer, out);
  Send(job, Incomplete(job) ? "response.incomplete" : "response.completed",
       ",\"response\":" + Response(job, true), out);
}

std::string Body(Job& job) {
  return Response(job, true);
}

}  // namespace

const Protocol kResponsesProtocol{"resp_", Open, Token, Close, Body};

}  // namespace tidegate_engine
