#include "tools/engine/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/json_parse.h"
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

std::string NewId(Draw& ids) {
  const uint64_t high = ids.Next();
  return fmt::format("{:016x}{:016x}", high, ids.Next());
}

}  // namespace

Service::Service(gateway::net::Loop& loop, Options options)
    : options_(std::move(options)),
      engine_(options_.profile, options_.models.front(), Now(), !options_.kv_events.url.empty()),
      pump_(loop, engine_),
      faults_(options_.seed),
      sleep_(loop, engine_, stats_, options_.sleeps),
      loras_(loop, options_, engine_, stats_),
      ids_(static_cast<uint64_t>(conf::ToUnixNanos(Now()))),
      transfer_(loop, options_.handover, options_.profile.block_size, NewId(ids_), stats_),
      jobs_(loop, options_, engine_, pump_, transfer_, stats_, ids_),
      started_(conf::ToUnixMicros(Now()) / 1'000'000) {
  for (const Fault& fault : options_.faults) faults_.Add(fault);
}

void Service::PublishKvEvents(KvPublisher& publisher) {
  pump_.OnStepped([this, &publisher] { publisher.Publish(engine_.kv_log()->Take(), Now()); });
}

bool Service::Ready() const {
  return engine_.Ready(Now()) && complete_();
}

Task<void> Service::Handle(Exchange& exchange) {
  if (!IsAllowed(exchange)) {
    co_await exchange.Send(401, kJson, R"({"error":"Unauthorized"})");
    co_return;
  }
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
  if (!error && counted && !Ready()) {
    error = ApiError{.status = 503, .type = {}, .message = "The model is still loading.", .param = {}};
  }
  if (!error && counted && !sleep_.awake())
    error = ApiError{.status = 503, .type = {}, .message = "The engine sleeps.", .param = {}};
  if (error) {
    co_await Fail(exchange, stats_, api, *error);
  } else {
    co_await Dispatch(exchange, api, rest, fault);
  }
}

Task<void> Service::Dispatch(Exchange& exchange, Api api, std::string_view rest,
                             const std::optional<Fault>& fault) {
  switch (api) {
    case Api::kHealth:
      co_await exchange.Send(Ready() ? 200 : 503, {}, "");
      break;
    case Api::kVersion:
      co_await Reply(exchange, fmt::format(R"({{"version":"{}","preset":{}}})", TIDEGATE_VERSION,
                                           conf::Quoted(options_.profile.name)));
      break;
    case Api::kMetrics:
      co_await exchange.Send(
          200, kPrometheus,
          engine_.metrics().Render(engine_.model(), Now(), options_.loras, transfer_.counts()));
      break;
    case Api::kStats:
      co_await Reply(exchange, stats_.Render(engine_, options_.loras, faults_, transfer_.counts(),
                                             transfer_.held(), connections_()));
      break;
    case Api::kFault:
      co_await ChangeFaults(exchange);
      break;
    case Api::kHandover:
      co_await transfer_.HandOver(exchange);
      break;
    case Api::kSleep:
    case Api::kWakeUp:
    case Api::kIsSleeping:
    case Api::kCollectiveRpc:
      co_await sleep_.Serve(exchange, api);
      break;
    case Api::kLoadLora:
    case Api::kUnloadLora:
      co_await loras_.Serve(exchange, api);
      break;
    case Api::kModels:
      co_await Models(exchange, rest);
      break;
    default:
      if (TakesForm(api)) {
        co_await jobs_.ServeForm(exchange, api, fault);
      } else {
        co_await jobs_.Serve(
            exchange, api,
            ParseRequest(api, exchange.body(), options_.profile.block_size, engine_.kv_log() != nullptr),
            fault);
      }
  }
}

// Health, metrics and what only this engine has are open to everybody, as vLLM's are.
bool Service::IsAllowed(const Exchange& exchange) const {
  if (options_.api_key.empty() || !exchange.path().starts_with("/v1")) return true;
  const std::string_view given = exchange.head().Find(gateway::net::http::FieldId::authorization);
  return given == "Bearer " + options_.api_key;
}

std::optional<ApiError> Service::CheckMethod(Api api, std::string_view method) const {
  const bool of_sleep =
      api == Api::kSleep || api == Api::kWakeUp || api == Api::kIsSleeping || api == Api::kCollectiveRpc;
  const bool of_lora = api == Api::kLoadLora || api == Api::kUnloadLora;
  if (api == Api::kUnknown || !options_.Serves(api) || (of_sleep && !sleep_.enabled()) ||
      (of_lora && !loras_.enabled())) {
    return ApiError{.status = 404, .type = {}, .message = "Not Found", .param = {}};
  }
  bool posts = of_lora || IsModelApi(api) || api == Api::kFault || api == Api::kHandover ||
               (of_sleep && api != Api::kIsSleeping);
  bool fits = posts ? method == "POST" : method == "GET" || method == "HEAD";
  if (api == Api::kFault) fits = fits || method == "GET" || method == "DELETE";
  if (fits) return std::nullopt;
  return ApiError{.status = 405, .type = {}, .message = "Method Not Allowed", .param = {}};
}

Task<bool> Service::Models(Exchange& exchange, std::string_view id) {
  if (auto error = options_.CheckModel(id)) co_return co_await Fail(exchange, stats_, Api::kModels, *error);
  auto card = [this](const std::string& name) {
    const std::string& own = options_.models.front();
    const std::string source = loras_.SourceOf(name);
    return fmt::format(R"({{"id":{},"object":"model","created":{},"owned_by":"vllm","root":{},"parent":{},)"
                       R"("max_model_len":{},"permission":[]}})",
                       conf::Quoted(name), started_, conf::Quoted(source.empty() ? own : source),
                       source.empty() ? "null" : conf::Quoted(own), engine_.ContextLimit());
  };
  if (!id.empty()) co_return co_await Reply(exchange, card(std::string(id)));
  std::string body = R"({"object":"list","data":[)";
  for (const std::string& name : options_.models) body += (body.back() == '[' ? "" : ",") + card(name);
  for (const std::string& name : options_.loras) {
    if (!name.empty()) body += "," + card(name);
  }
  co_return co_await Reply(exchange, body + "]}");
}

// POST adds a fault, or with {"clear":true} removes all, as DELETE does; every method answers with the list.
Task<bool> Service::ChangeFaults(Exchange& exchange) {
  if (exchange.method() == "DELETE") faults_.Clear();
  if (exchange.method() == "POST") {
    Json json = conf::ParseJson(exchange.body());
    if (json.is_object() && json.value("clear", Json(false)) == Json(true)) {
      faults_.Clear();
    } else {
      auto fault = FaultFromJson(json);
      if (!fault.ok()) {
        co_return co_await Fail(
            exchange, stats_, Api::kFault,
            {.status = 400, .type = {}, .message = std::string(fault.status().message()), .param = {}});
      }
      faults_.Add(*std::move(fault));
    }
  }
  Json list = Json::array();
  for (const Fault& fault : faults_.list()) list.push_back(ToJson(fault));
  co_return co_await Reply(exchange, Json{{"faults", list}}.dump() + "\n");
}

Task<bool> Service::FailEarly(Exchange& exchange, Api api, const Fault& fault) {
  if (fault.kind == FaultKind::kHang) {
    co_await AwaitLeaving(exchange, stats_);
    co_return true;
  }
  int status = fault.kind == FaultKind::k500   ? 500
               : fault.kind == FaultKind::k503 ? 503
               : fault.kind == FaultKind::k429 ? 429
                                               : 0;
  if (status == 0) co_return false;
  Headers headers = kJson;
  if (status == 429) headers.emplace_back("retry-after", std::to_string(fault.arg));
  ApiError error{
      .status = status, .type = {}, .message = "The engine has a fault for this request.", .param = {}};
  co_await exchange.Send(status, headers, ErrorBody(api, error));
  co_return true;
}

}  // namespace tidegate_engine
