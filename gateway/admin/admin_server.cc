#include "gateway/admin/admin_server.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/admin/access.h"
#include "gateway/admin/input.h"
#include "gateway/admin/playground.h"
#include "gateway/admin/scope.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "plugins/auth/digest.h"

namespace gateway::admin {
namespace {

using net::http::Verb;

constexpr size_t kMaxConnections = 256;

// What supervisors and scrapers ask: answered however many connections there are.
bool IsHealth(std::string_view path) {
  return path == "/livez" || path == "/readyz" || path == "/metrics";
}

bool IsKey(Caller::Kind kind) {
  return kind == Caller::Kind::kKey || kind == Caller::Kind::kApplication || kind == Caller::Kind::kBootstrap;
}

bool IsCall(std::string_view path) {
  return IsHealth(path) || path.starts_with("/admin/") || path.starts_with("/sign-in/");
}

std::string NewRequestId() {
  std::array<unsigned char, 16> bits{};
  RAND_bytes(bits.data(), bits.size());
  return "req_" + conf::Hex(bits);
}

// A body that says what it is must say JSON.
bool IsJson(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type.empty() || conf::EqualsIgnoreCase(type, "application/json");
}

bool Changes(Verb method) {
  return method == Verb::post || method == Verb::delete_;
}

void TakeItems(Match& match, Call& call) {
  if (!match.items.empty()) call.item = std::move(match.items[0]);
  if (match.items.size() > 1) call.second_item = std::move(match.items[1]);
}

// What a browser does by itself must not be done in somebody's name.
std::optional<api::ApiError> CheckSession(const net::http::Head& head, const Call& call) {
  if (!call.caller.browser) return std::nullopt;
  if (const std::string_view host = head.Find(net::http::FieldId::host);
      !IsKnownHost(host, call.runtime->config())) {
    return api::Make(api::Code::kPermissionDenied,
                     "a session works at the address of people.url, at localhost and at IP addresses only");
  }
  return Changes(head.method) ? CheckOwnPage(head, call.caller) : std::nullopt;
}

// A request that could not be read whole has the same errors as one that could.
net::http::Server::Refusal RefuseUnread(int status) {
  const auto [code, message] = [&]() -> std::pair<api::Code, std::string> {
    switch (status) {
      case 408:
        return {api::Code::kRequestTimeout, "the request did not arrive in time"};
      case 413:
        return {api::Code::kRequestTooLarge,
                fmt::format("the body is larger than {} bytes, or {} for the playground", kMaxBody,
                            kMaxPlaygroundBody)};
      case 417:
        return {api::Code::kExpectationFailed, "an expectation other than 100-continue"};
      case 431:
        return {api::Code::kHeaderTooLarge, "the head is too large"};
      case 501:
        return {api::Code::kUnsupportedCoding, "the only transfer coding accepted is chunked"};
      case 505:
        return {api::Code::kUnsupportedVersion, "only HTTP/1.0 and HTTP/1.1 are supported"};
      default:
        return {api::Code::kBadRequest, "the request is not valid HTTP/1.1"};
    }
  }();
  const std::string id = NewRequestId();
  return {"application/json", Refuse(code, message, id).body, {{"x-request-id", id}}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Listen(net::Loop& loop,
                                                                 const Operations& operations,
                                                                 const config::Address& address,
                                                                 const net::TlsHolder* tls,
                                                                 Audience audience) {
  std::unique_ptr<AdminServer> admin(new AdminServer(loop, operations, tls != nullptr, audience));
  net::http::Server::Options options;
  options.acceptor.address = ToString(address);
  if (tls) options.acceptor.tls = [tls] { return tls->Get(); };
  options.acceptor.admit = [&operations, audience](const std::string& ip) {
    const std::shared_ptr<const Runtime> runtime = operations.runtime();
    const Config& config = runtime->config();
    const std::vector<config::AllowedAddresses>& allow =
        audience == Audience::kPeople ? config.people.allow : config.admin.allow;
    return allow.empty() || std::ranges::any_of(allow, [&](const config::AllowedAddresses& some) {
             return some.range.Contains(ip);
           });
  };
  options.limits.body_bytes = kMaxBody;
  options.body_limit = [a = admin.get()](const net::http::Head& head) { return a->BodyLimit(head); };
  options.max_connections = kMaxConnections;
  options.refuse = RefuseUnread;
  auto server = net::http::Server::Listen(
      loop, std::move(options),
      [a = admin.get()](net::http::Exchange& exchange) { return a->Serve(exchange); });
  if (!server.ok()) return server.status();
  admin->server_ = *std::move(server);
  return admin;
}

// Images take room, which only those get who may ask models.
size_t AdminServer::BodyLimit(const net::http::Head& head) const {
  if (head.method != Verb::post || head.target.substr(0, head.target.find('?')) != kPlaygroundPath)
    return kMaxBody;
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const std::variant<Caller, api::ApiError> caller = CallerOf(head, runtime->config(), net::Now());
  const Caller* const known = std::get_if<Caller>(&caller);
  return known != nullptr && known->authority.May(Permission::kUsePlayground) ? kMaxPlaygroundBody : kMaxBody;
}

std::variant<Caller, api::ApiError> AdminServer::CallerOf(const net::http::Head& head, const Config& config,
                                                          conf::TimePoint now) const {
  const std::shared_ptr<const plugins::auth::KeyTable> keys = operations_.shared->keys->Table();
  return Identify(head,
                  {.config = config,
                   .keys = *keys,
                   .sessions = operations_.sessions,
                   .tokens = operations_.tokens(),
                   .secure = secure_ || config.people.url.tls(),
                   .projects = operations_.projects},
                  now);
}

net::Task<void> AdminServer::Serve(net::http::Exchange& exchange) {
  if (const std::optional<WebPage> page = FindPage(exchange)) {
    co_await exchange.Send(page->status, page->headers, page->body);
    co_return;
  }
  Call call;
  call.request_id = NewRequestId();
  call.now = net::Now();
  call.runtime = operations_.runtime();
  call.address = exchange.address();
  call.agent = exchange.head().Find(net::http::FieldId::user_agent);
  call.cookies = exchange.head().Find(net::http::FieldId::cookie);
  call.host = exchange.head().Find(net::http::FieldId::host);
  call.secure = secure_ || call.runtime->config().people.url.tls();
  Answer answer =
      server_->connections() > kMaxConnections && !IsHealth(exchange.path())
          ? Refuse(api::Code::kConnectionLimit, "too many connections to the admin listener", call.request_id)
          : co_await AnswerTo(exchange, call);
  const std::string_view method = exchange.method();
  if (LimitStranger(call, answer)) {
    // The ledger has their number, once a minute; a line each could fill the log.
  } else if (answer.status >= 400 && answer.status != 503) {
    log::Warn("admin request refused", {{"method", method},
                                        {"path", exchange.path()},
                                        {"status", answer.status},
                                        {"actor", call.caller.actor},
                                        {"request_id", call.request_id}});
  } else if (Changes(exchange.head().method)) {
    log::Info("admin request", {{"method", method},
                                {"path", exchange.path()},
                                {"status", answer.status},
                                {"actor", call.caller.actor},
                                {"request_id", call.request_id}});
  }
  net::http::Headers headers = {
      {"content-type", std::string(answer.content_type)},
      {"x-request-id", answer.request_id.empty() ? call.request_id : answer.request_id},
      {"cache-control", "no-store"}};
  if (call.runtime->config().server.version_header)
    headers.emplace_back("x-tidegate-version", TIDEGATE_VERSION);
  for (const api::ErrorHeader& header : answer.headers) headers.emplace_back(header.name, header.value);
  for (const auto& [name, value] : answer.fields) headers.emplace_back(name, value);
  if (!answer.allow.empty()) headers.emplace_back("allow", answer.allow);
  if (answer.status == 401) headers.emplace_back("www-authenticate", "Bearer");
  if (server_->connections() > kMaxConnections) exchange.CloseAfter();
  if (answer.stream) {
    co_await answer.stream(exchange, std::move(headers));
    co_return;
  }
  co_await exchange.Send(answer.status, headers, answer.body);
}

// Calls that are refused without a known caller are counted by address, together with those to the applications'
// listener. Beyond `auth.failed_per_minute` they are told to wait, and true is returned.
bool AdminServer::LimitStranger(const Call& call, Answer& answer) const {
  constexpr std::array kRefused = {401, 403, 404, 405};
  if (call.caller.kind != Caller::Kind::kNobody ||
      std::ranges::find(kRefused, answer.status) == kRefused.end())
    return false;
  const uint32_t per_minute = call.runtime->config().auth.failed_per_minute;
  const std::string_view code = answer.status == 401   ? "admin_unauthenticated"
                                : answer.status == 403 ? "admin_forbidden"
                                                       : "admin_unknown_path";
  const std::optional<conf::Duration> wait =
      operations_.shared->failed_attempts.Count(call.address, code, per_minute, call.now);
  if (!wait) return false;
  api::ApiError error = api::Make(
      api::Code::kTooManyFailedAttempts,
      fmt::format("more than {} calls a minute from this address had no valid credential", per_minute));
  error.retry_after = *wait;
  answer = Refuse(error, call.request_id);
  return true;
}

std::optional<WebPage> AdminServer::FindPage(const net::http::Exchange& exchange) const {
  const net::http::Head& head = exchange.head();
  if (head.method != Verb::get && head.method != Verb::head) return std::nullopt;
  if (server_->connections() > kMaxConnections || IsCall(exchange.path())) return std::nullopt;
  return operations_.page(exchange.path(), head.Find("accept-encoding"), head.Find("if-none-match"));
}

net::Task<Answer> AdminServer::AnswerTo(net::http::Exchange& exchange, Call& call) {
  if (audience_ == Audience::kPeople && IsHealth(exchange.path())) {
    co_return Refuse(api::Code::kNotFound,
                     fmt::format("{} is not on the listener for people", exchange.path()), call.request_id);
  }
  Match match = FindRoute(exchange.head().method, exchange.path());
  if (match.route == nullptr && match.allow.empty()) {
    co_return Refuse(api::Code::kNotFound,
                     fmt::format("unknown path {}; /admin/v1/openapi.json lists the paths", exchange.path()),
                     call.request_id);
  }
  if (match.route == nullptr) {
    Answer answer =
        Refuse(api::Code::kMethodNotAllowed,
               fmt::format("{} takes the method {}, not {}", exchange.path(), match.allow, exchange.method()),
               call.request_id);
    answer.allow = std::move(match.allow);
    co_return answer;
  }
  const Route& route = *match.route;
  TakeItems(match, call);
  if (const std::optional<Permission> needed = PermissionFor(route, call.runtime->config())) {
    std::variant<Caller, api::ApiError> caller = CallerOf(exchange.head(), call.runtime->config(), call.now);
    if (const auto* refused = std::get_if<api::ApiError>(&caller))
      co_return Refuse(*refused, call.request_id);
    if (audience_ == Audience::kPeople && IsKey(std::get<Caller>(caller).kind)) {
      co_return Refuse(api::Code::kInvalidApiKey, "keys do not work on the listener for people; sign in",
                       call.request_id);
    }
    call.caller = std::get<Caller>(std::move(caller));
    if (!call.caller.authority.May(*needed)) {
      co_return Refuse(api::Code::kPermissionDenied,
                       fmt::format("this call needs {}; the caller has {}", WhoMay(*needed),
                                   call.caller.authority.InWords()),
                       call.request_id);
    }
    if (std::optional<api::ApiError> refused = CheckSession(exchange.head(), call))
      co_return Refuse(*refused, call.request_id);
  }
  if (!exchange.body().empty() && !IsJson(exchange.head().Find(net::http::FieldId::content_type))) {
    co_return Refuse(api::Code::kUnsupportedMediaType, "the body must be application/json", call.request_id);
  }
  if (LeaderCalls* const leader = IsAnsweredByLeader(route) ? operations_.leader_calls() : nullptr) {
    co_return co_await leader->Pass({.request_id = call.request_id,
                                     .method = route.method,
                                     .path = std::string(exchange.path()),
                                     .query = std::string(exchange.query()),
                                     .body = std::string(exchange.body()),
                                     .caller = call.caller});
  }
  call.on_gone = [&exchange](std::function<void()> then) { exchange.OnGone(std::move(then)); };
  call.head = &exchange.head();
  co_return co_await RunChecked(route, exchange.query(), exchange.body(), call);
}

net::Task<Answer> AdminServer::Serve(PassedCall passed) {
  Call call;
  call.request_id = passed.request_id;
  call.now = net::Now();
  call.runtime = operations_.runtime();
  call.caller = std::move(passed.caller);
  call.on_gone = [](const std::function<void()>&) {};
  Match match = FindRoute(passed.method, passed.path);
  if (match.route == nullptr || !IsAnsweredByLeader(*match.route)) {
    co_return Refuse(api::Code::kNotFound,
                     fmt::format("the gateway that leads does not answer {}", passed.path), call.request_id);
  }
  TakeItems(match, call);
  const std::optional<Permission> needed = PermissionFor(*match.route, call.runtime->config());
  if (needed && !call.caller.authority.May(*needed)) {
    co_return Refuse(api::Code::kPermissionDenied, fmt::format("this call needs {}", WhoMay(*needed)),
                     call.request_id);
  }
  Answer answer = co_await RunChecked(*match.route, passed.query, passed.body, call);
  if (Changes(match.route->method)) {
    log::Info("admin request", {{"method", match.route->method == Verb::post ? "POST" : "DELETE"},
                                {"path", passed.path},
                                {"status", answer.status},
                                {"actor", call.caller.actor},
                                {"request_id", call.request_id}});
  }
  co_return answer;
}

net::Task<Answer> AdminServer::RunChecked(const Route& route, std::string_view query, std::string_view body,
                                          Call& call) {
  std::vector<FieldProblem> problems = ReadQuery(
      query, route.query, route.takes_any_query ? Unknowns::kPassedOver : Unknowns::kRefused, call.query);
  call.text = body;
  if (!route.raw_body) {
    for (FieldProblem& problem : ReadBody(call.text, route.body, call.body))
      problems.push_back(std::move(problem));
  }
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (!route.read.empty()) read_records_.Note(route, call);
  call.read = [this](std::function<void()> work) { return ReadInTurn(std::move(work)); };
  try {
    Answer answer = co_await RunRoute(route, call);
    if (!call.caller.authority.MayEverywhere(Permission::kReadOutput)) HideOutput(answer.body);
    if (!call.caller.authority.roles().empty()) HideOthers(operations_, call, answer.body);
    co_return answer;
  } catch (const std::exception& error) {
    log::Error("admin request failed", {{"path", route.path}, {"what", error.what()}});
  }
  co_return Refuse(api::Code::kInternalError, "the request could not be answered", call.request_id);
}

net::Task<Answer> AdminServer::RunRoute(const Route& route, const Call& call) {
  if (route.task != nullptr) co_return co_await route.task(operations_, call);
  if (route.lane == Lane::kLoop) co_return route.run(operations_, call);
  Answer answer;
  const bool done = co_await call.read([&] { answer = route.run(operations_, call); });
  co_return done ? std::move(answer) : RefuseCrowded(call.request_id);
}

net::Task<bool> AdminServer::ReadInTurn(std::function<void()> work) {
  if (!co_await reads_.Lock()) co_return false;
  const std::exception_ptr failed = co_await net::OffLoop(loop_, [&work]() -> std::exception_ptr {
    try {
      work();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  });
  reads_.Unlock();
  if (failed) std::rethrow_exception(failed);
  co_return true;
}

void AdminServer::Close() {
  server_->CloseAll();
}

}  // namespace gateway::admin
