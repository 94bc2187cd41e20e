// The protocols of /v1/chat/completions and /v1/completions, as vLLM writes them.
#include "conf/json_text.h"
#include "conf/words.h"
#include "tools/engine/protocol.h"

namespace tidegate_engine {
namespace {

constexpr std::string_view kDone = "data: [DONE]\n\n";

void SetHead(Job& job, std::string_view object) {
  job.chunk_head = fmt::format(R"(data: {{"id":"{}","object":"{}","created":{},"model":{})", job.id, object,
                               job.created, conf::Quoted(job.model));
}

// Closes the choices and ends the event, with the usage that was asked for.
void EndChunk(const Job& job, Events& out, std::string& event) {
  event += ']';
  if (job.request.include_usage && job.report_usage) {
    event += ',';
    if (job.request.continuous_usage) {
      AppendUsage(job.SentUsage(), event);
    } else {
      event += "\"usage\":null";
    }
  }
  event += "}\n\n";
  out.End();
}

void EndStream(Job& job, Events& out) {
  if (job.request.include_usage && job.report_usage) {
    std::string& event = out.Begin();
    event.append(job.chunk_head).append(",\"choices\":[],");
    AppendUsage(job.SentUsage(), event);
    event += "}\n\n";
    out.End();
  }
  out.Frame(kDone);
}

void AppendFinish(const Answer& answer, bool last, std::string& out) {
  if (!last) {
    out += R"("logprobs":null,"finish_reason":null})";
    return;
  }
  fmt::format_to(std::back_inserter(out), R"("logprobs":null,"finish_reason":"{}","stop_reason":{}}})",
                 FinishName(answer.finish),
                 answer.stopped_by.empty() ? "null" : conf::Quoted(answer.stopped_by));
}

void OpenChat(Job& job, Events& out) {
  SetHead(job, "chat.completion.chunk");
  for (size_t i = 0; i < job.choices.size(); ++i) {
    std::string& event = out.Begin();
    event += job.chunk_head;
    fmt::format_to(std::back_inserter(event),
                   R"(,"choices":[{{"index":{},"delta":{{"role":"assistant","content":""}},)"
                   R"("logprobs":null,"finish_reason":null}})",
                   i);
    EndChunk(job, out, event);
  }
}

void AppendDelta(const Answer& answer, uint32_t token, std::string& out) {
  std::string_view text = answer.Token(token);
  int index = answer.CallOf(token);
  if (index < 0) {
    out += "{\"content\":\"";
    conf::AppendEscaped(out, text);
    out += "\"}";
    return;
  }
  const Call& call = answer.calls[static_cast<size_t>(index)];
  fmt::format_to(std::back_inserter(out), R"({{"tool_calls":[{{"index":{},)", index);
  bool begins = token == 0 || answer.ends[token - 1] <= call.begin;
  if (begins) {
    fmt::format_to(std::back_inserter(out),
                   R"("id":"{}","type":"function","function":{{"name":{},"arguments":")", call.id,
                   conf::Quoted(call.name));
  } else {
    out += "\"function\":{\"arguments\":\"";
  }
  conf::AppendEscaped(out, text);
  out += "\"}}]}";
}

void ChatToken(Job& job, size_t index, Events& out) {
  const Choice& choice = job.choices[index];
  uint32_t token = choice.sent - 1;
  bool last = !job.endless && choice.sent == choice.answer.tokens();
  if (!last && choice.answer.Token(token).empty()) return;
  std::string& event = out.Begin();
  event += job.chunk_head;
  if (index == 0) {
    event += ",\"choices\":[{\"index\":0,\"delta\":";
  } else {
    fmt::format_to(std::back_inserter(event), ",\"choices\":[{{\"index\":{},\"delta\":", index);
  }
  AppendDelta(choice.answer, token, event);
  event += ',';
  AppendFinish(choice.answer, last, event);
  EndChunk(job, out, event);
}

void AppendCalls(const Answer& answer, std::string& out) {
  out += '[';
  for (const Call& call : answer.calls) {
    if (out.back() != '[') out += ',';
    fmt::format_to(std::back_inserter(out),
                   R"({{"id":"{}","type":"function","function":{{"name":{},"arguments":{}}}}})", call.id,
                   conf::Quoted(call.name), conf::Quoted(answer.Arguments(call)));
  }
  out += ']';
}

// The fields behind the choices of a whole answer.
void EndBody(Job& job, std::string& body) {
  body += "],\"service_tier\":null,\"system_fingerprint\":null";
  if (job.report_usage) {
    body += ',';
    AppendUsage(job.SentUsage(), body);
  }
  body.append(",\"kv_transfer_params\":")
      .append(job.kv_transfer_params.empty() ? "null" : job.kv_transfer_params)
      .append("}");
}

std::string ChatBody(Job& job) {
  std::string body =
      fmt::format(R"({{"id":"{}","object":"chat.completion","created":{},"model":{},"choices":[)", job.id,
                  job.created, conf::Quoted(job.model));
  for (size_t i = 0; i < job.choices.size(); ++i) {
    const Answer& answer = job.choices[i].answer;
    if (i > 0) body += ',';
    fmt::format_to(std::back_inserter(body), R"({{"index":{},"message":{{"role":"assistant","content":)", i);
    if (answer.calls.empty() || answer.content > 0) {
      conf::AppendQuoted(body, answer.Content());
    } else {
      body += "null";
    }
    body += R"(,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":)";
    AppendCalls(answer, body);
    body += R"(,"reasoning_content":null},)";
    AppendFinish(answer, true, body);
  }
  EndBody(job, body);
  return body;
}

std::string_view EchoOf(const Job& job, size_t index) {
  if (!job.request.echo) return {};
  return job.request.prompt_texts[index / job.request.n];
}

void OpenCompletions(Job& job, Events& out) {
  SetHead(job, "text_completion");
  for (size_t i = 0; job.request.echo && i < job.choices.size(); ++i) {
    std::string& event = out.Begin();
    fmt::format_to(std::back_inserter(event),
                   R"({},"choices":[{{"index":{},"text":{},"logprobs":null,)"
                   R"("finish_reason":null}})",
                   job.chunk_head, i, conf::Quoted(EchoOf(job, i)));
    EndChunk(job, out, event);
  }
}

void CompletionsToken(Job& job, size_t index, Events& out) {
  const Choice& choice = job.choices[index];
  uint32_t token = choice.sent - 1;
  bool last = !job.endless && choice.sent == choice.answer.tokens();
  if (!last && choice.answer.Token(token).empty()) return;
  std::string& event = out.Begin();
  event += job.chunk_head;
  fmt::format_to(std::back_inserter(event), ",\"choices\":[{{\"index\":{},\"text\":\"", index);
  conf::AppendEscaped(event, choice.answer.Token(token));
  event += "\",";
  AppendFinish(choice.answer, last, event);
  EndChunk(job, out, event);
}

std::string CompletionsBody(Job& job) {
  std::string body =
      fmt::format(R"({{"id":"{}","object":"text_completion","created":{},"model":{},"choices":[)", job.id,
                  job.created, conf::Quoted(job.model));
  for (size_t i = 0; i < job.choices.size(); ++i) {
    if (i > 0) body += ',';
    fmt::format_to(std::back_inserter(body), R"({{"index":{},"text":")", i);
    conf::AppendEscaped(body, EchoOf(job, i));
    conf::AppendEscaped(body, job.choices[i].answer.Content());
    body += "\",";
    AppendFinish(job.choices[i].answer, true, body);
  }
  EndBody(job, body);
  return body;
}

}  // namespace

constexpr conf::Word<Finish> kFinishes[] = {
    {"length", Finish::kLength}, {"tool_calls", Finish::kToolCalls}, {"stop", Finish::kStop}};

std::string_view FinishName(Finish finish) {
  return conf::WordOf(kFinishes, finish);
}

const Protocol& ProtocolOf(Api api) {
  switch (api) {
    case Api::kCompletions:
      return kCompletionsProtocol;
    case Api::kResponses:
      return kResponsesProtocol;
    case Api::kMessages:
      return kMessagesProtocol;
    default:
      return kChatProtocol;
  }
}

const Protocol kChatProtocol{"chatcmpl-", OpenChat, ChatToken, EndStream, ChatBody};
const Protocol kCompletionsProtocol{"cmpl-", OpenCompletions, CompletionsToken, EndStream, CompletionsBody};

}  // namespace tidegate_engine
