#include "gateway/admin/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/net/http/authority.h"
#include "plugins/auth/base64url.h"
#include "plugins/auth/credential.h"
#include "plugins/auth/digest.h"

namespace gateway::admin {
namespace {

namespace auth = plugins::auth;
using auth::Role;
using net::http::FieldId;

// Of a cookie that only https carries, the name says so to the browser, which then lets nothing else set it.
constexpr std::string_view kSecureCookie = "__Host-tidegate";
constexpr std::string_view kPlainCookie = "tidegate";
constexpr size_t kSecretLength = 43;  // 256 bits as base64url
// While somebody is at a provider.
constexpr std::string_view kSecureSignIn = "__Host-tidegate-sign-in";
constexpr std::string_view kPlainSignIn = "tidegate-sign-in";
constexpr int kSignInSeconds = 600;
constexpr size_t kMostPage = 1024;

std::variant<Caller, api::ApiError> ByKey(std::string_view secret, const Credentials& credentials,
                                          conf::TimePoint now) {
  const conf::Secret& bootstrap = credentials.config.admin.bootstrap_key;
  if (!bootstrap.empty() &&
      auth::EqualInConstantTime(auth::Sha256(secret), auth::Sha256(bootstrap.Reveal()))) {
    if (!HadAdmin(credentials))
      return Caller{Caller::Kind::kBootstrap, "bootstrap", Authority({{Role::kAdmin, {}}})};
    return api::Make(
        api::Code::kKeyRevoked,
        "the bootstrap key works only until there is a first admin: use an admin key or sign in; "
        "'tidegate keys create --admin admin' makes a key on the gateway's machine");
  }
  const auth::Verdict verdict = Check(credentials.keys, secret, now);
  switch (verdict.kind) {
    case auth::Verdict::Kind::kOk:
      break;
    case auth::Verdict::Kind::kExpired:
    case auth::Verdict::Kind::kReplaced:
      return api::Make(api::Code::kKeyExpired, verdict.Message());
    case auth::Verdict::Kind::kRevoked:
      return api::Make(api::Code::kKeyRevoked, verdict.Message());
    case auth::Verdict::Kind::kUnknown:
      return api::Make(api::Code::kInvalidApiKey, verdict.Message());
  }
  const auth::KeyRecord& key = *verdict.record;
  return Caller{.kind = key.role == Role::kNone ? Caller::Kind::kApplication : Caller::Kind::kKey,
                .actor = key.id,
                .authority = Authority({{key.role, key.tenant}}, key.rights),
                .name = key.name};
}

std::variant<Caller, api::ApiError> ByToken(std::string_view token, const Credentials& credentials,
                                            conf::TimePoint now) {
  if (credentials.tokens == nullptr)
    return api::Make(api::Code::kInvalidApiKey, "this gateway accepts no bearer tokens, only its own keys");
  const auth::JwtAuthenticator::Outcome outcome = credentials.tokens->Check(token, now);
  if (!outcome.result.ok()) {
    const auth::JwtRefusal refusal = outcome.result.refusal;
    return api::Make(refusal == auth::JwtRefusal::kNoKeys    ? api::Code::kIssuerUnavailable
                     : refusal == auth::JwtRefusal::kExpired ? api::Code::kKeyExpired
                                                             : api::Code::kInvalidApiKey,
                     outcome.result.message);
  }
  const auth::JwtIdentity& identity = *outcome.result.identity;
  return Caller{.kind = Caller::Kind::kToken,
                .actor = identity.key_id,
                .authority = Authority({{identity.role, identity.tenant}})};
}

// A session by the link of a key works for as long as the key does.
bool ItsKeyIsOver(const Session& session, const auth::KeyTable& keys, conf::TimePoint now) {
  const auth::KeyRecordPtr* const key = keys.Find(session.person.id);
  if (key == nullptr) return false;
  const std::optional<conf::TimePoint> end = (*key)->EndsAt();
  return (*key)->revoked_at || (end && *end <= now);
}

std::variant<Caller, api::ApiError> BySession(std::string_view secret, bool browser,
                                              const Credentials& credentials, conf::TimePoint now) {
  const Session* const session = credentials.sessions == nullptr ? nullptr
                                 : credentials.prolongs          ? credentials.sessions->Find(secret, now)
                                                                 : credentials.sessions->Check(secret, now);
  if (session == nullptr || session->command_line == browser || ItsKeyIsOver(*session, credentials.keys, now))
    return api::Make(api::Code::kKeyExpired, "this session has ended; sign in again");
  std::vector<RoleOver> roles = session->person.roles;
  if (credentials.projects != nullptr) {
    for (RoleOver& over : credentials.projects->RolesOf(session->person)) {
      if (std::ranges::find(roles, over) == roles.end()) roles.push_back(std::move(over));
    }
  }
  return Caller{.kind = Caller::Kind::kPerson,
                .actor = session->person.id,
                .authority = Authority(std::move(roles), session->person.rights),
                .name = session->person.name,
                .session = session->id,
                .csrf = browser ? CsrfTokenOf(secret) : std::string(),
                .browser = browser};
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The value of a cookie in a Cookie header; empty: it has none of that name.
std::string_view CookieOf(std::string_view cookies, std::string_view name) {
  for (std::string_view rest = cookies; !rest.empty();) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view pair = Trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return pair.substr(name.size() + 1);
  }
  return {};
}

// A page of ours: nothing that a browser would take for another host.
bool IsOwnPage(std::string_view page) {
  return page.starts_with('/') && !page.starts_with("//") && page.size() <= kMostPage &&
         std::ranges::all_of(page, [](char c) { return c > ' ' && c <= '~' && c != '\\'; });
}

bool IsIpAddress(std::string_view host) {
  if (host.find(':') != std::string_view::npos) return true;  // nothing else in a valid host has one
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::variant<Caller, api::ApiError> Identify(const net::http::Head& head, const Credentials& credentials,
                                             conf::TimePoint now) {
  auth::CredentialReader reader;
  for (const net::http::Field& field : head.fields) reader.Header(field.name, field.value);
  const auth::Credential& credential = reader.Result();
  if (credential.state == auth::Credential::State::kFound) {
    if (credential.value.starts_with(kSessionPrefix))
      return BySession(credential.value.substr(kSessionPrefix.size()), false, credentials, now);
    return auth::Classify(credential.value) == auth::CredentialKind::kJwt
               ? ByToken(credential.value, credentials, now)
               : ByKey(credential.value, credentials, now);
  }
  if (credential.state != auth::Credential::State::kMissing)
    return api::Make(api::Code::kInvalidApiKey, std::string(credential.message));
  const std::string_view secret = SessionSecretOf(head, credentials.secure);
  if (secret.empty()) {
    return api::Make(api::Code::kMissingApiKey,
                     "no admin key: send it as 'Authorization: Bearer <key>' or 'x-api-key'; "
                     "'tidegate keys create --admin ROLE' makes one");
  }
  return BySession(secret, true, credentials, now);
}

bool HadAdmin(const Credentials& credentials) {
  return (credentials.sessions != nullptr && credentials.sessions->HadAdmin()) ||
         std::ranges::any_of(credentials.keys.List(),
                             [](const auth::KeyRecordPtr& key) { return key->role == Role::kAdmin; });
}

std::optional<api::ApiError> CheckOwnPage(const net::http::Head& head, const Caller& caller) {
  if (!caller.browser) return std::nullopt;
  if (const std::string_view origin = head.Find("origin"); !origin.empty()) {
    const size_t scheme = origin.find("://");
    const std::string_view from = scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
    if (!conf::EqualsIgnoreCase(from, head.Find(FieldId::host)))
      return api::Make(api::Code::kPermissionDenied, "this call comes from a page of another origin");
  }
  const std::string_view token = head.Find("x-csrf-token");
  if (auth::EqualInConstantTime(auth::Sha256(token), auth::Sha256(caller.csrf))) return std::nullopt;
  return api::Make(api::Code::kPermissionDenied,
                   "a call that changes something needs the header x-csrf-token with the value `csrf` of "
                   "/admin/v1/me");
}

bool IsKnownHost(std::string_view host, const Config& config) {
  const std::string_view name = net::http::HostOf(host);
  return IsIpAddress(name) || conf::EqualsIgnoreCase(name, "localhost") ||
         (!config.people.url.empty() && conf::EqualsIgnoreCase(name, config.people.url.host));
}

std::string_view SessionSecretOf(const net::http::Head& head, bool secure) {
  for (const net::http::Field& field : head.fields) {
    if (field.id != FieldId::cookie) continue;
    const std::string_view value = CookieOf(field.value, secure ? kSecureCookie : kPlainCookie);
    if (value.size() == kSecretLength) return value;
  }
  return {};
}

// Lax: a link from a mail opens a page as the person; a form of another page does not act as the person.
std::string SessionCookie(std::string_view secret, bool secure) {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Lax{}{}", secure ? kSecureCookie : kPlainCookie,
                     secret, secure ? "; Secure" : "", secret.empty() ? "; Max-Age=0" : "");
}

SignInCookie SignInCookieOf(std::string_view cookies, bool secure) {
  SignInCookie out;
  const std::string_view value = CookieOf(cookies, secure ? kSecureSignIn : kPlainSignIn);
  if (value.size() < kSecretLength) return out;
  out.secret = value.substr(0, kSecretLength);
  const std::optional<std::string> page =
      auth::DecodeBase64Url(value.substr(std::min(value.size(), kSecretLength + 1)));
  if (page && IsOwnPage(*page)) out.page = *page;
  return out;
}

std::string SetSignInCookie(const SignInCookie& cookie, bool secure) {
  return fmt::format("{}={}.{}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{}",
                     secure ? kSecureSignIn : kPlainSignIn, cookie.secret,
                     auth::EncodeBase64Url(IsOwnPage(cookie.page) ? cookie.page : "/"), kSignInSeconds,
                     secure ? "; Secure" : "");
}

std::string ClearSignInCookie(bool secure) {
  return fmt::format("{}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0{}",
                     secure ? kSecureSignIn : kPlainSignIn, secure ? "; Secure" : "");
}

}  // namespace gateway::admin
