// People: who the caller is, how one signs in, and the sessions.
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "conf/words.h"
#include "gateway/admin/answers/people.h"
#include "gateway/admin/event_feed.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/api/coded_status.h"
#include "gateway/log.h"
#include "gateway/net/http/authority.h"
#include "gateway/net/url.h"

namespace gateway::admin {
namespace {

constexpr conf::Duration kLinkLife = std::chrono::minutes(1);
constexpr conf::Duration kTerminalInterval = std::chrono::seconds(2);

constexpr conf::Word<Caller::Kind> kCallers[] = {{"nobody", Caller::Kind::kNobody},
                                                 {"key", Caller::Kind::kKey},
                                                 {"application", Caller::Kind::kApplication},
                                                 {"bootstrap", Caller::Kind::kBootstrap},
                                                 {"token", Caller::Kind::kToken},
                                                 {"person", Caller::Kind::kPerson}};

std::vector<answers::RoleOf> ShowRoles(const std::vector<RoleOver>& roles) {
  std::vector<answers::RoleOf> out;
  for (const RoleOver& over : roles) {
    if (over.role == plugins::auth::Role::kNone) continue;
    out.push_back({RoleName(over.role), answers::TextOrNull(over.tenant)});
  }
  return out;
}

answers::PersonSession ShowSession(const Session& session, const SessionTerms& terms, const Call& call) {
  return {.id = session.id,
          .actor = session.person.id,
          .name = session.person.name,
          .email = session.person.email,
          .provider = session.person.provider,
          .roles = ShowRoles(session.person.roles),
          .created = {session.created},
          .seen = {session.seen},
          .ends = {EndOf(session, terms)},
          .address = session.address,
          .client = session.client,
          .command_line = session.command_line,
          .current = session.id == call.caller.session};
}

SessionTerms TermsOf(const Call& call) {
  const config::PeopleSessions& sessions = call.runtime->config().people.sessions;
  return {sessions.idle, sessions.lifetime};
}

// Where people open the console.
std::string AddressOf(const Call& call) {
  const Config& config = call.runtime->config();
  if (!config.people.url.empty()) return ToString(config.people.url);
  return fmt::format("{}://{}", call.secure ? "https" : "http", call.host);
}

// Where applications call, as far as it is known here: the name by which this call came, at the gateway's
// port.
std::string BaseUrlOf(const Call& call, uint16_t port) {
  const Config& config = call.runtime->config();
  if (!config.people.api_url.empty()) return ToString(config.people.api_url) + "/v1";
  config::Address address = config.server.listen.front();
  if (port != 0) address.port = port;
  const bool everywhere = address.host == "0.0.0.0" || address.host == "::";
  const std::string_view host = net::http::HostOf(call.host);
  return fmt::format("{}://{}/v1", config.server.tls ? "https" : "http",
                     everywhere && !host.empty() ? fmt::format("{}:{}", net::Bracketed(host), address.port)
                                                 : ToString(address));
}

void Record(const Operations& operations, std::string_view action, const std::string& actor,
            const Session& session) {
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = action;
  event.actor = actor;
  event.subject = session.person.id;
  event.detail = nlohmann::ordered_json{{"session", session.id},
                                        {"provider", session.person.provider},
                                        {"address", session.address},
                                        {"by", session.command_line ? "command line" : "browser"}}
                     .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  operations.record(std::move(event));
}

Answer NoSessions(const Call& call) {
  return Refuse(api::Code::kConflict, "sign-in is off on this gateway", call.request_id);
}

// A browser that comes from elsewhere is shown a page, not JSON.
Answer GoTo(std::string page, std::vector<std::string> cookies) {
  Answer answer{.status = 303, .body = "", .content_type = "text/plain"};
  answer.fields.emplace_back("location", std::move(page));
  for (std::string& cookie : cookies) answer.fields.emplace_back("set-cookie", std::move(cookie));
  return answer;
}

// The page has a sentence for each of these words. With a sentence in the address, any link could put its own on the page.
std::string_view ProblemOfProvider(const absl::Status& why) {
  switch (why.code()) {
    case absl::StatusCode::kNotFound:
      return "unknown_provider";
    case absl::StatusCode::kInvalidArgument:
      return "other_attempt";
    case absl::StatusCode::kUnauthenticated:
      return "answer_refused";
    case absl::StatusCode::kCancelled:
      return "declined";
    case absl::StatusCode::kPermissionDenied:
      return "no_role";
    default:
      return "provider_unavailable";
  }
}

std::string_view ProblemOfLink(const absl::Status& why) {
  return absl::IsNotFound(why) ? "link_used" : "store_unavailable";
}

std::string_view ProblemOfSession(const absl::Status& why) {
  return absl::IsResourceExhausted(why) ? "too_many_sessions" : "store_unavailable";
}

Answer ToSignInPage(std::string_view problem, const absl::Status& why, const Call& call) {
  log::Warn("sign-in refused", {{"problem", problem},
                                {"provider", call.item},
                                {"why", conf::Std(why.message())},
                                {"address", call.address},
                                {"request_id", call.request_id}});
  return GoTo(fmt::format("/sign-in?problem={}", problem), {ClearSignInCookie(call.secure)});
}

Answer RefuseStore(const absl::Status& why, const Call& call) {
  if (absl::IsNotFound(why)) return Refuse(why, call.request_id);
  const std::string message(conf::Std(why.message()));
  if (const std::optional<api::Code> code = api::CodeOf(why)) return Refuse(*code, message, call.request_id);
  if (absl::IsPermissionDenied(why)) return Refuse(api::Code::kPermissionDenied, message, call.request_id);
  return Refuse(api::Code::kStoreUnavailable, message, call.request_id);
}

answers::TerminalSession ShowTerminalSession(const Sessions::Begun& begun) {
  return {.state = "confirmed",
          .token = std::string(kSessionPrefix) + begun.secret,
          .actor = begun.session.person.id,
          .name = begun.session.person.name,
          .ends = answers::Time{begun.session.ends}};
}

Answer ShowTerminalSignInAnswer(const TerminalSignIn& request) {
  return Json(answers::ShownTerminalSignIn{
      .code = request.code, .address = request.address, .client = request.client, .ends = {request.ends}});
}

// Who confirms a command line is at the console: a command line's own session gives birth to no other.
std::optional<Answer> RefuseNoBrowser(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr || operations.terminal_sign_ins == nullptr) return NoSessions(call);
  if (call.caller.browser) return std::nullopt;
  return Refuse(api::Code::kConflict,
                "a command line is confirmed in the console, by a person who is signed in", call.request_id);
}

void RecordDecision(const Operations& operations, std::string_view action, const Call& call,
                    const TerminalSignIn& request) {
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = action;
  event.actor = call.caller.actor;
  event.subject = call.caller.actor;
  event.detail =
      nlohmann::ordered_json{
          {"session", call.caller.session}, {"address", request.address}, {"client", request.client}}
          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  operations.record(std::move(event));
}

}  // namespace

Answer ShowMe(const Operations& operations, const Call& call) {
  const Caller& caller = call.caller;
  answers::Me me{.actor = caller.actor,
                 .name = caller.name,
                 .kind = conf::WordOf(kCallers, caller.kind),
                 .roles = ShowRoles(caller.authority.roles()),
                 .base_url = BaseUrlOf(call, operations.port()),
                 .scaling = call.runtime->config().scaling.has_value()};
  for (const Permission permission : caller.authority.all())
    me.permissions.push_back(gateway::Name(permission));
  if (operations.events != nullptr) me.last_event = operations.events->last_id();
  const VisibleModels visible(call);
  for (const TenantRuntime& tenant : call.runtime->tenants()) {
    if (call.May(Permission::kSeeTenants, tenant.path)) me.tenants.push_back(tenant.path);
  }
  std::ranges::sort(me.tenants);
  for (const config::Model& model : call.runtime->config().models) {
    if (caller.authority.May(Permission::kSeeModels) && visible.Has(model.name))
      me.models.push_back(model.name);
  }
  if (caller.kind == Caller::Kind::kPerson) {
    if (caller.browser) me.csrf = caller.csrf;
    for (const Session& session : operations.sessions->List(call.now)) {
      if (session.id == caller.session) me.session_ends = {EndOf(session, TermsOf(call))};
    }
  }
  return Json(me);
}

Answer ListSignInWays(const Operations&, const Call& call) {
  answers::SignInWays ways;
  for (const config::Provider& provider : call.runtime->config().people.providers) {
    ways.providers.push_back({.name = provider.name,
                              .label = provider.label.empty() ? provider.name : provider.label,
                              .url = "/sign-in/with/" + provider.name});
  }
  return Json(ways);
}

net::Task<Answer> MakeSignInLink(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr) co_return NoSessions(call);
  Person person{.id = call.caller.actor,
                .name = call.caller.name.empty() ? call.caller.actor : call.caller.name,
                .provider = "link",
                .roles = call.caller.authority.roles(),
                .rights = call.caller.authority.rights()};
  const conf::TimePoint ends = call.now + kLinkLife;
  SignInCode made{.person = std::move(person), .ends = ends};
  // Links do not prolong what a sign-in has given.
  const std::vector<Session> all = operations.sessions->List(call.now);
  if (const auto own = std::ranges::find(all, call.caller.session, &Session::id); own != all.end())
    made.session_ends = own->ends;
  const absl::StatusOr<std::string> code = co_await operations.sessions->MakeCode(std::move(made));
  if (!code.ok()) co_return RefuseStore(code.status(), call);
  co_return Json(answers::SignInLink{.url = fmt::format("{}/sign-in/link?code={}", AddressOf(call), *code),
                                     .ends = {ends}},
                 201);
}

net::Task<Answer> RedeemSignInLink(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr) co_return NoSessions(call);
  if (!IsKnownHost(call.host, call.runtime->config()))
    co_return Refuse(api::Code::kPermissionDenied, "links work at the address of people.url only",
                     call.request_id);
  absl::StatusOr<SignInCode> code = co_await operations.sessions->RedeemCode(call.Query("code"), call.now);
  if (!code.ok()) co_return ToSignInPage(ProblemOfLink(code.status()), code.status(), call);
  Sessions::Client client{.address = call.address, .agent = call.agent, .latest = code->session_ends};
  const absl::StatusOr<Sessions::Begun> begun =
      co_await operations.sessions->Begin(std::move(code->person), std::move(client), {}, call.now);
  if (!begun.ok()) co_return ToSignInPage(ProblemOfSession(begun.status()), begun.status(), call);
  Record(operations, "session.begin", begun->session.person.id, begun->session);
  co_return GoTo("/", {SessionCookie(begun->secret, call.secure)});
}

net::Task<Answer> BeginSignIn(const Operations& operations, const Call& call) {
  if (operations.sign_in == nullptr) co_return NoSessions(call);
  const absl::StatusOr<SignIn::Started> started = co_await operations.sign_in->Begin(call.item);
  if (!started.ok()) co_return ToSignInPage(ProblemOfProvider(started.status()), started.status(), call);
  const std::string page = call.Query("page");
  co_return GoTo(
      started->url,
      {SetSignInCookie({.secret = started->secret, .page = page.empty() ? "/" : page}, call.secure)});
}

net::Task<Answer> FinishSignIn(const Operations& operations, const Call& call) {
  if (operations.sign_in == nullptr || operations.sessions == nullptr) co_return NoSessions(call);
  const SignInCookie cookie = SignInCookieOf(call.cookies, call.secure);
  absl::StatusOr<SignIn::Finished> finished =
      co_await operations.sign_in->Finish({.provider = call.item,
                                           .code = call.Query("code"),
                                           .state = call.Query("state"),
                                           .error = call.Query("error"),
                                           .secret = cookie.secret},
                                          call.now);
  if (!finished.ok()) co_return ToSignInPage(ProblemOfProvider(finished.status()), finished.status(), call);
  const absl::StatusOr<Sessions::Begun> begun = co_await operations.sessions->Begin(
      std::move(finished->person), {call.address, call.agent}, std::move(finished->id_token), call.now);
  if (!begun.ok()) co_return ToSignInPage(ProblemOfSession(begun.status()), begun.status(), call);
  Record(operations, "session.begin", begun->session.person.id, begun->session);
  co_return GoTo(cookie.page, {SessionCookie(begun->secret, call.secure), ClearSignInCookie(call.secure)});
}

net::Task<Answer> RedeemLinkForTerminal(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr) co_return NoSessions(call);
  absl::StatusOr<SignInCode> code = co_await operations.sessions->RedeemCode(call.Text("code"), call.now);
  if (!code.ok()) co_return RefuseStore(code.status(), call);
  Sessions::Client client{
      .address = call.address, .agent = call.agent, .command_line = true, .latest = code->session_ends};
  const absl::StatusOr<Sessions::Begun> begun =
      co_await operations.sessions->Begin(std::move(code->person), std::move(client), {}, call.now);
  if (!begun.ok()) co_return RefuseStore(begun.status(), call);
  Record(operations, "session.begin", begun->session.person.id, begun->session);
  co_return Json(ShowTerminalSession(*begun));
}

net::Task<Answer> BeginTerminalSignIn(const Operations& operations, const Call& call) {
  if (operations.terminal_sign_ins == nullptr) co_return NoSessions(call);
  Sessions::Client client{.address = call.address, .agent = call.agent};
  const absl::StatusOr<TerminalSignIns::Begun> begun =
      co_await operations.terminal_sign_ins->Begin(std::move(client), call.now);
  if (!begun.ok()) co_return RefuseStore(begun.status(), call);
  co_return Json(
      answers::NewTerminalSignIn{.code = begun->code,
                                 .secret = begun->secret,
                                 .url = fmt::format("{}/terminal?code={}", AddressOf(call), begun->code),
                                 .ends = {begun->ends},
                                 .interval_ms = conf::ToMillis(kTerminalInterval)},
      201);
}

net::Task<Answer> ShowTerminalSignIn(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseNoBrowser(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<TerminalSignIn> request =
      co_await operations.terminal_sign_ins->Find(call.item, call.caller.actor, call.now);
  co_return request.ok() ? ShowTerminalSignInAnswer(*request) : RefuseStore(request.status(), call);
}

net::Task<Answer> ConfirmTerminalSignIn(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseNoBrowser(operations, call)) co_return *std::move(refused);
  const std::vector<Session> all = operations.sessions->List(call.now);
  const auto own = std::ranges::find(all, call.caller.session, &Session::id);
  if (own == all.end()) co_return RefuseStore(absl::NotFoundError("this session has just ended"), call);
  const absl::StatusOr<TerminalSignIn> request =
      co_await operations.terminal_sign_ins->Confirm(call.item, *own, call.now);
  if (!request.ok()) co_return RefuseStore(request.status(), call);
  RecordDecision(operations, "command_line.confirm", call, *request);
  co_return ShowTerminalSignInAnswer(*request);
}

net::Task<Answer> RefuseTerminalSignIn(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseNoBrowser(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<TerminalSignIn> request =
      co_await operations.terminal_sign_ins->Refuse(call.item, call.caller.actor, call.now);
  if (!request.ok()) co_return RefuseStore(request.status(), call);
  RecordDecision(operations, "command_line.refuse", call, *request);
  co_return ShowTerminalSignInAnswer(*request);
}

net::Task<Answer> RedeemTerminalSignIn(const Operations& operations, const Call& call) {
  if (operations.terminal_sign_ins == nullptr) co_return NoSessions(call);
  const absl::StatusOr<std::optional<Sessions::Begun>> begun =
      co_await operations.terminal_sign_ins->Redeem(call.item, call.Text("secret"), call.now);
  if (!begun.ok()) co_return RefuseStore(begun.status(), call);
  if (!*begun) co_return Json(answers::TerminalSession{.state = "waiting"});
  Record(operations, "session.begin", (*begun)->session.person.id, (*begun)->session);
  co_return Json(ShowTerminalSession(**begun));
}

Answer ListSessions(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr) return NoSessions(call);
  const bool all = call.caller.authority.MayEverywhere(Permission::kSeePeople);
  std::vector<answers::PersonSession> shown;
  for (const Session& session : operations.sessions->List(call.now)) {
    if (all || session.person.id == call.caller.actor)
      shown.push_back(ShowSession(session, TermsOf(call), call));
  }
  return ListPage(std::move(shown), &answers::PersonSession::id, call);
}

net::Task<Answer> EndOwnSession(const Operations& operations, const Call& call) {
  if (call.caller.kind != Caller::Kind::kPerson)
    co_return Refuse(api::Code::kConflict, "this call has no session that could end", call.request_id);
  const absl::StatusOr<Session> ended = co_await operations.sessions->End(call.caller.session);
  if (!ended.ok()) co_return RefuseStore(ended.status(), call);
  Record(operations, "session.end", call.caller.actor, *ended);
  Answer answer = Json(answers::EndedSession{
      .id = ended->id,
      .url = operations.sign_in == nullptr ? std::nullopt : operations.sign_in->EndUrl(*ended)});
  if (call.caller.browser) answer.fields = {{"set-cookie", SessionCookie({}, call.secure)}};
  co_return answer;
}

net::Task<Answer> EndSession(const Operations& operations, const Call& call) {
  if (operations.sessions == nullptr) co_return NoSessions(call);
  const std::vector<Session> all = operations.sessions->List(call.now);
  const auto found = std::ranges::find(all, call.item, &Session::id);
  const bool may = call.caller.authority.MayEverywhere(Permission::kEndSessions);
  if (found == all.end() || (!may && found->person.id != call.caller.actor)) {
    co_return Refuse(api::Code::kNotFound, fmt::format("no session has the id \"{}\"", call.item),
                     call.request_id);
  }
  const absl::StatusOr<Session> ended = co_await operations.sessions->End(call.item);
  if (!ended.ok()) co_return RefuseStore(ended.status(), call);
  Record(operations, "session.end", call.caller.actor, *ended);
  co_return Json(answers::EndedSession{.id = ended->id});
}

}  // namespace gateway::admin
