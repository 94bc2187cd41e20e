#include "tools/engine/job_server.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/json_text.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "tools/engine/media.h"
#include "tools/engine/pooling.h"

namespace tidegate_engine {
namespace {

using gateway::net::AsBuffer;
using gateway::net::Now;
using gateway::net::http::Headers;

constexpr size_t kRenderAtOnce = 64 * 1024;
constexpr size_t kBytesOfAudioPerToken = 640;
constexpr size_t kMaxAudioTokens = 3000;

std::string_view DataPrefix(Api api) {
  return api == Api::kMessages ? "event: content_block_delta\ndata: " : "data: ";
}

bool Is(const std::optional<Fault>& fault, FaultKind kind) {
  return fault && fault->kind == kind;
}

// Faults that show after some tokens of a stream, or in the middle of a whole answer.
bool BreaksOff(const std::optional<Fault>& fault) {
  return Is(fault, FaultKind::kStall) || Is(fault, FaultKind::kDrop) || Is(fault, FaultKind::kBadChunk) ||
         Is(fault, FaultKind::kBadJson);
}

std::string TokensUsage(const Job& job) {
  if (!job.report_usage) return "";
  Usage usage = job.SentUsage();
  return fmt::format(R"(,"usage":{{"type":"tokens","input_tokens":{},"output_tokens":{},"total_tokens":{}}})",
                     usage.prompt, usage.completion, usage.prompt + usage.completion);
}

std::string ImagesBody(const Job& job, uint32_t n) {
  std::string image = absl::Base64Escape(conf::Abseil(TinyPng()));
  std::string body = fmt::format(R"({{"created":{},"data":[)", job.created);
  for (uint32_t i = 0; i < n; ++i)
    fmt::format_to(std::back_inserter(body), R"({}{{"b64_json":"{}"}})", i ? "," : "", image);
  return body + "]" + TokensUsage(job) + "}";
}

// Appends the generated tokens that are not sent, choice by choice in turn, up to a bound. True when a fault
// is due.
bool Render(Job& job, const Protocol& protocol, uint64_t until, uint64_t& sent, Events& out) {
  while (job.HasUnsent() && out.size() < kRenderAtOnce) {
    for (size_t i = 0; i < job.choices.size(); ++i) {
      Choice& choice = job.choices[i];
      if (choice.sent >= choice.generated) continue;
      if (sent++ >= until) return true;
      ++choice.sent;
      protocol.token(job, i, out);
    }
  }
  return job.finished() && !job.HasUnsent() && sent <= until && until != UINT64_MAX;
}

}  // namespace

JobServer::JobServer(gateway::net::Loop& loop, const Options& options, Engine& engine, Pump& pump,
                     PromptTransfer& transfer, Stats& stats, Draw& ids)
    : loop_(loop),
      options_(options),
      engine_(engine),
      pump_(pump),
      transfer_(transfer),
      stats_(stats),
      ids_(ids) {}

void JobServer::Prepare(Api api, Job& job, std::string_view model, const std::optional<Fault>& fault) {
  std::string_view prefix = api <= Api::kMessages         ? ProtocolOf(api).id_prefix
                            : api == Api::kEmbeddings     ? "embd-"
                            : api == Api::kTranscriptions ? "trsc-"
                                                          : "score-";
  job.id = fmt::format("{}{:016x}{:016x}", prefix, ids_.Next(), ids_.Next());
  job.model = model.empty() ? options_.models.front() : std::string(model);
  const auto lora = std::ranges::find(options_.loras, job.model);
  if (lora != options_.loras.end()) job.adapter = static_cast<uint32_t>(lora - options_.loras.begin()) + 1;
  job.created = conf::ToUnixMicros(Now()) / 1'000'000;
  job.report_usage = options_.report_usage;
  job.endless = Is(fault, FaultKind::kEndless);
}

void JobServer::AddPrompts(const std::vector<Prompt>& prompts, uint32_t n, bool answers, Job& job) {
  uint64_t limit = engine_.ContextLimit();
  for (const Prompt& prompt : prompts) {
    for (uint32_t i = 0; i < n; ++i) {
      Choice& choice = job.choices.emplace_back();
      choice.prompt = &prompt;
      if (!answers) continue;
      auto left =
          static_cast<uint32_t>(std::max<uint64_t>(limit - std::min<uint64_t>(prompt.tokens(), limit), 1));
      choice.answer =
          MakeAnswer(job.request, prompt, i,
                     {.seed = options_.seed, .fixed_tokens = options_.output_tokens, .context_left = left});
    }
  }
}

Task<void> JobServer::Serve(Exchange& exchange, Api api, Request request, const std::optional<Fault>& fault) {
  if (auto* error = std::get_if<ApiError>(&request)) {
    co_await Fail(exchange, stats_, api, *error);
    co_return;
  }
  std::string_view model = std::visit(
      [](const auto& r) -> std::string_view {
        if constexpr (requires { r.model; }) return r.model;
        return {};
      },
      request);
  if (auto error = options_.CheckModel(model)) {
    co_await Fail(exchange, stats_, api, *error);
    co_return;
  }
  if (auto* counting = std::get_if<Counting>(&request)) {
    co_await Count(exchange, *counting);
    co_return;
  }
  Job job;
  Prepare(api, job, model, fault);
  if (auto* generation = std::get_if<Generation>(&request)) {
    co_await Generate(exchange, api, std::move(*generation), job, fault);
  } else if (auto* pooling = std::get_if<Pooling>(&request)) {
    AddPrompts(pooling->prompts, 1, false, job);
    co_await Run(exchange, job, [&] { return PoolingBody(*pooling, job); }, "application/json", fault);
  } else {
    const Media& media = std::get<Media>(request);
    std::vector<Prompt> prompts(1, Prompt(options_.profile.block_size));
    prompts[0].AddText(media.input);
    AddPrompts(prompts, 1, false, job);
    if (api == Api::kSpeech) {
      co_await Run(exchange, job, [&] { return MakeWav(media.input); }, "audio/wav", fault);
    } else {
      co_await Run(exchange, job, [&] { return ImagesBody(job, media.n); }, "application/json", fault);
    }
  }
}

Task<bool> JobServer::Count(Exchange& exchange, const Counting& request) {
  if (request.api == Api::kDetokenize) {
    co_return co_await Reply(exchange, fmt::format(R"({{"prompt":{}}})", conf::Quoted(request.text)));
  }
  if (request.api == Api::kCountTokens) {
    co_return co_await Reply(exchange, fmt::format(R"({{"input_tokens":{}}})", request.prompt.tokens()));
  }
  co_return co_await Reply(
      exchange,
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":null}})",
                  request.prompt.tokens(), engine_.ContextLimit(), fmt::join(request.prompt.ids(), ",")));
}

Task<void> JobServer::Generate(Exchange& exchange, Api api, Generation generation, Job& job,
                               const std::optional<Fault>& fault) {
  job.request = std::move(generation);
  if (auto error = transfer_.Check(job.request)) {
    co_await Fail(exchange, stats_, api, *error);
    co_return;
  }
  if (transfer_.OnlyPrefills()) {
    job.request.max_tokens = 1;
    job.request.stream = false;
  }
  AddPrompts(job.request.prompts, job.request.n, true, job);
  if (auto error = co_await transfer_.Receive(exchange, job)) {
    co_await Fail(exchange, stats_, api, *error);
    co_return;
  }
  if (exchange.gone()) {
    exchange.CloseAfter();
    co_return;
  }
  const Protocol& protocol = ProtocolOf(api);
  co_await Run(exchange, job, [&] { return protocol.body(job); }, "application/json", fault);
}

Task<void> JobServer::ServeForm(Exchange& exchange, Api api, const std::optional<Fault>& fault) {
  auto form = ParseForm(exchange.head().Find("content-type"), exchange.body());
  std::string_view file_name = api == Api::kTranscriptions ? "file" : "image";
  std::optional<ApiError> error;
  if (!form.ok()) {
    error = ApiError{.status = 400, .type = {}, .message = std::string(form.status().message()), .param = {}};
  } else if (FindPart(*form, file_name).empty()) {
    error = ApiError{.status = 400,
                     .type = {},
                     .message = fmt::format("The form has no part `{}`.", file_name),
                     .param = std::string(file_name)};
  } else {
    error = options_.CheckModel(FindPart(*form, "model"));
  }
  if (error) {
    co_await Fail(exchange, stats_, api, *error);
    co_return;
  }
  Job job;
  Prepare(api, job, FindPart(*form, "model"), fault);
  std::vector<Prompt> prompts(1, Prompt(options_.profile.block_size));
  std::string_view file = FindPart(*form, file_name);
  for (size_t at = 0; at < std::min(file.size(), kMaxAudioTokens * kBytesOfAudioPerToken);
       at += kBytesOfAudioPerToken) {
    prompts[0].AddId(TokenId(file.substr(at, kMaxTokenBytes)));
  }
  prompts[0].AddText(FindPart(*form, "prompt"));
  AddPrompts(prompts, 1, api == Api::kTranscriptions, job);
  if (api == Api::kImageEdits) {
    co_await Run(exchange, job, [&] { return ImagesBody(job, 1); }, "application/json", fault);
  } else if (FindPart(*form, "response_format") == "text") {
    co_await Run(
        exchange, job, [&] { return job.choices[0].answer.text + "\n"; }, "text/plain; charset=utf-8", fault);
  } else {
    auto body = [&] {
      return fmt::format(R"({{"text":{}{}}})", conf::Quoted(job.choices[0].answer.text), TokensUsage(job));
    };
    co_await Run(exchange, job, body, "application/json", fault);
  }
}

// Submits the job and answers it, with `body` when it is to be whole.
Task<void> JobServer::Run(Exchange& exchange, Job& job, std::function<std::string()> body,
                          std::string_view content_type, const std::optional<Fault>& fault) {
  if (auto error = engine_.Start(job, Now())) {
    co_await Fail(exchange, stats_, job.request.api, *error);
    co_return;
  }
  exchange.OnGone([this, &job] {
    engine_.Cancel(job, Now());
    job.progress.Set();
  });
  pump_.Kick();
  if (job.request.stream) {
    co_await Stream(exchange, job, fault);
    co_return;
  }
  co_await AwaitEnd(job);
  if (exchange.gone()) {
    if (!job.cancelled) stats_.Undelivered();
    exchange.CloseAfter();
    co_return;
  }
  if (auto error = co_await transfer_.Offer(exchange, job)) {
    co_await Fail(exchange, stats_, job.request.api, *error);
    co_return;
  }
  if (exchange.gone()) {
    stats_.Undelivered();
    exchange.CloseAfter();
    co_return;
  }
  std::string text = body();
  if (BreaksOff(fault)) {
    co_await BreakAnswer(exchange, *fault, text);
  } else if (Is(fault, FaultKind::kSlowHeaders)) {
    std::string head =
        fmt::format("HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    content_type, text.size());
    if (co_await SlowHead(exchange, std::move(head), fault->arg))
      co_await exchange.connection().Write(AsBuffer(text));
  } else {
    Headers headers{{"content-type", std::string(content_type)}};
    if (!co_await exchange.Send(200, headers, text)) stats_.Undelivered();
  }
}

// Until a whole answer is generated or the client has left.
Task<void> JobServer::AwaitEnd(Job& job) {
  while (!job.finished()) {
    co_await job.progress.Wait();
    job.progress.Reset();
    if (!job.endless || job.finished()) continue;
    for (Choice& choice : job.choices) choice.sent = choice.generated;
    engine_.Continue(job, Now());
    pump_.Kick();
  }
  for (Choice& choice : job.choices) choice.sent = choice.generated;
}

Task<void> JobServer::Stream(Exchange& exchange, Job& job, const std::optional<Fault>& fault) {
  static const Headers kEventStream{{"content-type", "text/event-stream; charset=utf-8"},
                                    {"cache-control", "no-cache"}};
  const Protocol& protocol = ProtocolOf(job.request.api);
  uint64_t until = BreaksOff(fault) ? fault->arg : UINT64_MAX;
  uint64_t sent = 0;
  bool opened = false;
  Events out;
  bool alive = true;
  if (Is(fault, FaultKind::kSlowHeaders)) {
    std::string head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        "transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    alive = co_await SlowHead(exchange, std::move(head), fault->arg);
  } else {
    alive = co_await exchange.Start(200, kEventStream);
  }
  while (alive && !job.cancelled) {
    if (job.HasUnsent() || job.finished()) {
      if (!std::exchange(opened, true)) protocol.open(job, out);
      bool broken = Render(job, protocol, until, sent, out);
      if (broken) {
        co_await BreakStream(exchange, job, *fault, out);
        co_return;
      }
      bool whole = job.finished() && !job.HasUnsent();
      if (whole) {
        protocol.close(job, out);
        out.Last();
      }
      alive = static_cast<bool>(co_await exchange.connection().Write(AsBuffer(out.bytes())));
      out.Clear();
      if (whole && alive) co_return;
      continue;
    }
    if (job.endless) {
      engine_.Continue(job, Now());
      pump_.Kick();
    }
    co_await job.progress.Wait();
    job.progress.Reset();
  }
  engine_.Cancel(job, Now());
  if (!job.cancelled) stats_.Undelivered();
  exchange.CloseAfter();
}

Task<void> JobServer::BreakStream(Exchange& exchange, Job& job, const Fault& fault, Events& out) {
  engine_.Withdraw(job, Now());
  exchange.CloseAfter();
  if (fault.kind == FaultKind::kBadChunk) out.Raw("zz\r\ndata: {\r\n");
  if (fault.kind == FaultKind::kBadJson) {
    out.Frame(
        fmt::format("{}{{\"id\":\"{}\",\"choices\":[{{\"delta\":\n\n", DataPrefix(job.request.api), job.id));
    out.Last();
  }
  co_await exchange.connection().Write(AsBuffer(out.bytes()));
  if (fault.kind == FaultKind::kDrop) exchange.Reset();
  if (fault.kind == FaultKind::kStall) co_await AwaitLeaving(exchange, stats_);
}

Task<void> JobServer::BreakAnswer(Exchange& exchange, const Fault& fault, std::string_view body) {
  std::string_view half = body.substr(0, body.size() / 2);
  if (fault.kind == FaultKind::kBadJson) {
    co_await exchange.Send(200, {{"content-type", "application/json"}}, half);
    co_return;
  }
  exchange.CloseAfter();
  if (fault.kind == FaultKind::kStall) {
    co_await AwaitLeaving(exchange, stats_);
    co_return;
  }
  std::string bytes = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
  if (fault.kind == FaultKind::kDrop) {
    fmt::format_to(std::back_inserter(bytes), "content-length: {}\r\n\r\n{}", body.size(), half);
  } else {
    fmt::format_to(std::back_inserter(bytes), "transfer-encoding: chunked\r\n\r\n{:x}\r\n{}\r\nzz\r\n",
                   half.size(), half);
  }
  co_await exchange.connection().Write(AsBuffer(bytes));
  if (fault.kind == FaultKind::kDrop) exchange.Reset();
}

Task<bool> JobServer::SlowHead(Exchange& exchange, std::string head, uint32_t milliseconds) {
  exchange.CloseAfter();
  gateway::net::Sleep sleep(loop_.watchdog);
  for (const char& byte : head) {
    if (exchange.gone()) co_return false;
    if (!co_await exchange.connection().Write(AsBuffer({&byte, 1}))) co_return false;
    co_await sleep.For(std::chrono::milliseconds(milliseconds));
  }
  co_return !exchange.gone();
}

}  // namespace tidegate_engine
