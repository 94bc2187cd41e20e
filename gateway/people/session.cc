#include "gateway/people/session.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "conf/hex.h"
#include "conf/json_fields.h"
#include "gateway/people/stored_json.h"
#include "plugins/auth/base64url.h"
#include "plugins/auth/digest.h"
#include "plugins/auth/hmac.h"

namespace gateway {

template <class O>
constexpr void Bind(O& o, RoleOver& over) {
  o.Required("role", over.role);
  o.Optional("tenant", over.tenant);
}

template <class O>
constexpr void Bind(O& o, Person& person) {
  o.Required("id", person.id);
  o.Optional("name", person.name);
  o.Optional("email", person.email);
  o.Optional("email_verified", person.email_verified);
  o.Optional("provider", person.provider);
  o.Optional("roles", person.roles);
  o.Optional("rights", person.rights);
}

template <class O>
constexpr void Bind(O& o, Session& session) {
  o.Required("id", session.id);
  o.Required("person", session.person);
  o.Required("created", session.created);
  o.Required("seen", session.seen);
  o.Required("ends", session.ends);
  o.Optional("address", session.address);
  o.Optional("client", session.client);
  o.Optional("id_token", session.id_token);
  o.Optional("command_line", session.command_line);
}

template <class O>
constexpr void Bind(O& o, SignInCode& code) {
  o.Required("person", code.person);
  o.Required("ends", code.ends);
  o.Optional("session_ends", code.session_ends);
}

template <class O>
constexpr void Bind(O& o, TerminalSignIn& request) {
  o.Optional("code", request.code);
  o.Required("secret", request.secret);
  o.Required("ends", request.ends);
  o.Optional("address", request.address);
  o.Optional("client", request.client);
  o.Optional("person", request.person);
  o.Optional("session_ends", request.session_ends);
  o.Optional("refused", request.refused);
}

conf::TimePoint EndOf(const Session& session, const SessionTerms& terms) {
  return std::min(session.ends, session.seen + terms.idle);
}

std::string EncodeSession(const Session& session) {
  return conf::ToJsonText(session);
}

absl::StatusOr<Session> DecodeSession(std::string_view json) {
  return ReadStored<Session>("session", json);
}

std::string EncodeSignInCode(const SignInCode& code) {
  return conf::ToJsonText(code);
}

absl::StatusOr<SignInCode> DecodeSignInCode(std::string_view json) {
  return ReadStored<SignInCode>("sign-in code", json);
}

std::string EncodeTerminalSignIn(const TerminalSignIn& request) {
  return conf::ToJsonText(request);
}

absl::StatusOr<TerminalSignIn> DecodeTerminalSignIn(std::string_view json) {
  return ReadStored<TerminalSignIn>("terminal sign-in", json);
}

std::string NewSecret() {
  std::array<unsigned char, 32> bits{};
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) std::abort();
  return plugins::auth::EncodeBase64Url({reinterpret_cast<const char*>(bits.data()), bits.size()});
}

std::string StoredName(std::string_view secret) {
  return conf::Hex(plugins::auth::Sha256(secret));
}

std::string CsrfTokenOf(std::string_view secret) {
  return plugins::auth::HmacSha256(secret, "csrf");
}

}  // namespace gateway
