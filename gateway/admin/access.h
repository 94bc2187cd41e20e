// The caller of the admin API: an admin key or an application's key of the key store, the bootstrap key of
// the configuration, a token of a configured issuer, or a person with a session. A browser has its session in a
// cookie, a command line sends it as a bearer token; neither works as the other.
//
// Pure but for the session that it keeps alive; control loop's thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "conf/time.h"
#include "gateway/api/error.h"
#include "gateway/config/config.h"
#include "gateway/net/http/head.h"
#include "gateway/people/permissions.h"
#include "gateway/people/projects.h"
#include "gateway/people/sessions.h"
#include "plugins/auth/jwt_authenticator.h"
#include "plugins/auth/key_table.h"

namespace gateway::admin {

struct Caller {
  enum class Kind : uint8_t { kNobody, kKey, kApplication, kBootstrap, kToken, kPerson };
  Kind kind = Kind::kNobody;
  std::string actor;  // the key's id, "bootstrap", "jwt:…", "person:…"
  Authority authority;
  std::string name{};     // as people call it; empty: not known
  std::string session{};  // of a person: its public id
  std::string csrf{};     // of a browser: what its state-changing calls must carry
  bool browser = false;   // a person whose session is a cookie
};

// What callers are known by.
struct Credentials {
  const Config& config;
  const plugins::auth::KeyTable& keys;
  Sessions* sessions = nullptr;                       // null: nobody can sign in
  plugins::auth::JwtAuthenticator* tokens = nullptr;  // null: no issuer is configured
  bool secure = false;                                // whether people come by https
  const Projects* projects = nullptr;                 // whose members have roles; null: nobody has
  bool prolongs = true;                               // a session that is found lives on
};

// The caller, or why there is none. Compared in constant time; the secret is in no message.
std::variant<Caller, api::ApiError> Identify(const net::http::Head& head, const Credentials& credentials,
                                             conf::TimePoint now);

// Whether the bootstrap key has done its work: an admin key was made, even one that works no more, or somebody with the
// role admin has signed in.
bool HadAdmin(const Credentials& credentials);

// A call that changes something and comes by a cookie must come from our own pages. The error, or nothing.
std::optional<api::ApiError> CheckOwnPage(const net::http::Head& head, const Caller& caller);

// Pages and cookies are only for names that cannot be made to point at us by a stranger's DNS: an IP address,
// localhost, or the host of `people.url`.
bool IsKnownHost(std::string_view host, const Config& config);

// The session's secret of the request's cookies; empty: none. Where people come by https, a cookie that anything
// but this gateway could have set counts for nothing.
std::string_view SessionSecretOf(const net::http::Head& head, bool secure);
// The Set-Cookie for a new session, or (empty secret) for one that has ended.
std::string SessionCookie(std::string_view secret, bool secure);

// What a browser keeps while it is at a provider: the secret of the attempt, and the page to return to.
struct SignInCookie {
  std::string secret;
  std::string page = "/";
};
SignInCookie SignInCookieOf(std::string_view cookies, bool secure);
std::string SetSignInCookie(const SignInCookie& cookie, bool secure);
std::string ClearSignInCookie(bool secure);

}  // namespace gateway::admin
