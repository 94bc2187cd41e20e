#include "tools/engine/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/json_text.h"
#include "gateway/net/clock.h"

namespace tidegate_engine {
namespace {

using gateway::net::Now;
using gateway::net::http::Headers;

const Headers kJson{{"content-type", "application/json"}};
const Headers kPrometheus{{"content-type", "text/plain; version=0.0.4; charset=utf-8"}};

bool TakesForm(Api api) {
  return api == Api::kTranscriptions || api == Api::kImageEdits;
}

}  // namespace

Service::Service(gateway::net::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      engine_(options_.profile, options_.models.front(), Now(), !options_.kv_events.url.empty()),
      pump_(loop, engine_),
      faults_(options_.seed),
      ids_(static_cast<uint64_t>(conf::ToUnixNanos(Now()))),
      started_(conf::ToUnixMicros(Now()) / 1'000'000) {
  for (const Fault& fault : options_.faults) faults_.Add(fault);
  engine_id_ = fmt::format("{:016x}{:016x}", ids_.Next(), ids_.Next());
}

void Service::PublishKvEvents(KvPublisher& publisher) {
  pump_.OnStepped([this, &publisher] { publisher.Publish(engine_.kv_log()->Take(), Now()); });
}

Service::Task<void> Service::Handle(Exchange& exchange) {
  std::string_view rest;
  Api api = FindApi(exchange.head().target, &rest);
  bool counted = IsModelApi(api);
  if (counted) stats_.Received(api, exchange);
  std::optional<Fault> fault;
  if (!faults_.empty()) fault = faults_.Pick(api);
  if (fault) {
    stats_.Faulted();
    if (co_await FailEarly(exchange, api, *fault)) co_return;
  }
  std::optional<ApiError> error = CheckMethod(api, exchange.method());
  if (!error && counted && !engine_.Ready(Now())) {
    error = ApiError{.status = 503, .type = {}, .message = "The model is still loading.", .param = {}};
  }
  if (error) {
    co_await Fail(exchange, api, *error);
  } else {
    co_await Dispatch(exchange, api, rest, fault);
  }
}

Service::Task<void> Service::Dispatch(Exchange& exchange, Api api, std::string_view rest,
                                      const std::optional<Fault>& fault) {
  switch (api) {
    case Api::kHealth:
      co_await exchange.Send(engine_.Ready(Now()) ? 200 : 503, {}, "");
      break;
    case Api::kVersion:
      co_await Reply(exchange, fmt::format(R"({{"version":"{}","preset":{}}})", TIDEGATE_VERSION,
                                           conf::Quoted(options_.profile.name)));
      break;
    case Api::kMetrics:
      co_await exchange.Send(200, kPrometheus,
                             engine_.metrics().Render(engine_.model(), Now(), options_.loras, handovers_));
      break;
    case Api::kStats:
      co_await Reply(exchange, stats_.Render(engine_, options_.loras, faults_, handovers_, held_.size(),
                                             connections_()));
      break;
    case Api::kFault:
      co_await ChangeFaults(exchange);
      break;
    case Api::kHandover:
      co_await HandOver(exchange);
      break;
    case Api::kModels:
      co_await Models(exchange, rest);
      break;
    default:
      if (TakesForm(api)) {
        co_await ServeForm(exchange, api, fault);
      } else {
        co_await Serve(
            exchange, api,
            ParseRequest(api, exchange.body(), options_.profile.block_size, engine_.kv_log() != nullptr),
            fault);
      }
  }
}

Service::Task<bool> Service::Reply(Exchange& exchange, std::string body) {
  co_return co_await exchange.Send(200, kJson, body);
}

Service::Task<bool> Service::Fail(Exchange& exchange, Api api, const ApiError& error) {
  if (IsModelApi(api)) stats_.Refused();
  co_return co_await exchange.Send(error.status, kJson, ErrorBody(api, error));
}

std::optional<ApiError> Service::CheckMethod(Api api, std::string_view method) const {
  if (api == Api::kUnknown || !options_.Serves(api)) {
    return ApiError{.status = 404, .type = {}, .message = "Not Found", .param = {}};
  }
  bool posts = IsModelApi(api) || api == Api::kFault || api == Api::kHandover;
  bool fits = posts ? method == "POST" : method == "GET" || method == "HEAD";
  if (api == Api::kFault) fits = fits || method == "GET" || method == "DELETE";
  if (fits) return std::nullopt;
  return ApiError{.status = 405, .type = {}, .message = "Method Not Allowed", .param = {}};
}

std::optional<ApiError> Service::CheckModel(std::string_view model) const {
  bool known = std::find(options_.models.begin(), options_.models.end(), model) != options_.models.end();
  known = known || std::ranges::find(options_.loras, model) != options_.loras.end();
  if (model.empty() || known) return std::nullopt;
  return ApiError{.status = 404,
                  .type = {},
                  .message = fmt::format("The model `{}` does not exist.", model),
                  .param = "model"};
}

Service::Task<bool> Service::Models(Exchange& exchange, std::string_view id) {
  if (auto error = CheckModel(id)) co_return co_await Fail(exchange, Api::kModels, *error);
  auto card = [this](const std::string& name) {
    const std::string& own = options_.models.front();
    const bool lora = std::ranges::find(options_.loras, name) != options_.loras.end();
    return fmt::format(R"({{"id":{},"object":"model","created":{},"owned_by":"vllm","root":{},"parent":{},)"
                       R"("max_model_len":{},"permission":[]}})",
                       conf::Quoted(name), started_, conf::Quoted(lora ? "/adapters/" + name : own),
                       lora ? conf::Quoted(own) : "null", engine_.ContextLimit());
  };
  if (!id.empty()) co_return co_await Reply(exchange, card(std::string(id)));
  std::string body = R"({"object":"list","data":[)";
  for (const std::string& name : options_.models) body += (body.back() == '[' ? "" : ",") + card(name);
  for (const std::string& name : options_.loras) body += "," + card(name);
  co_return co_await Reply(exchange, body + "]}");
}

Service::Task<bool> Service::Count(Exchange& exchange, const Counting& request) {
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

// POST adds a fault, or with {"clear":true} removes all, as DELETE does; all answer with what is there then.
Service::Task<bool> Service::ChangeFaults(Exchange& exchange) {
  if (exchange.method() == "DELETE") faults_.Clear();
  if (exchange.method() == "POST") {
    Json json = Json::parse(exchange.body(), nullptr, false);
    if (json.is_object() && json.value("clear", Json(false)) == Json(true)) {
      faults_.Clear();
    } else {
      auto fault = FaultFromJson(json);
      if (!fault.ok()) {
        co_return co_await Fail(
            exchange, Api::kFault,
            {.status = 400, .type = {}, .message = std::string(fault.status().message()), .param = {}});
      }
      faults_.Add(*std::move(fault));
    }
  }
  Json list = Json::array();
  for (const Fault& fault : faults_.list()) list.push_back(ToJson(fault));
  co_return co_await Reply(exchange, Json{{"faults", list}}.dump() + "\n");
}

Service::Task<bool> Service::FailEarly(Exchange& exchange, Api api, const Fault& fault) {
  if (fault.kind == FaultKind::kHang) {
    co_await AwaitLeaving(exchange);
    co_return true;
  }
  int status = fault.kind == FaultKind::k500   ? 500
               : fault.kind == FaultKind::k503 ? 503
               : fault.kind == FaultKind::k429 ? 429
                                               : 0;
  if (status == 0) co_return false;
  Headers headers = kJson;
  if (status == 429) headers.emplace_back("retry-after", std::to_string(fault.arg));
  ApiError error{.status = status, .type = {}, .message = "The engine was told to fail.", .param = {}};
  co_await exchange.Send(status, headers, ErrorBody(api, error));
  co_return true;
}

Service::Task<void> Service::AwaitLeaving(Exchange& exchange) {
  gateway::net::Event left;
  exchange.OnGone([&left] { left.Set(); });
  co_await left.Wait();
  stats_.LeftHanging();
  exchange.CloseAfter();
}

}  // namespace tidegate_engine
