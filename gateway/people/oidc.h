// OpenID Connect, sans I/O: what is sent to a provider and what its answers mean (OpenID Connect Core 1.0,
// Discovery 1.0, RP-Initiated Logout 1.0; PKCE: RFC 7636).
//
// Authorisation code flow with PKCE (S256), state and nonce. All three are derived from one secret, which the
// browser keeps in a cookie while it is at the provider: nothing has to be remembered here, and an answer that was
// asked for by another browser fits no cookie.
//
// Pure; any thread. Messages never hold a token, a code or a secret.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/config/people.h"
#include "gateway/net/url.h"
#include "gateway/people/session.h"
#include "plugins/auth/jwt.h"

namespace gateway::oidc {

// What a provider says of itself.
struct Discovery {
  std::string issuer;  // as its tokens name it
  net::Url authorization;
  net::Url token;
  net::Url keys;
  std::optional<net::Url> user_info;
  std::optional<net::Url> end_session;
  bool secret_in_body = false;  // client_secret_post, since it does not know client_secret_basic
};

// InvalidArgument says what is missing or unsafe: another issuer, or an address that is not https.
absl::StatusOr<Discovery> ReadDiscovery(std::string_view json, const config::Provider& provider);

// What one attempt to sign in is bound to.
struct Proofs {
  explicit Proofs(std::string_view secret);
  std::string state;
  std::string nonce;
  std::string verifier;   // PKCE
  std::string challenge;  // its SHA-256
};

// Where the browser goes.
std::string AuthorizationUrl(const Discovery& discovery, const config::Provider& provider,
                             const std::string& redirect_uri, const Proofs& proofs);

// The call that turns a code into tokens: its body, and its Authorization header (empty: none).
struct TokenCall {
  std::string body;
  std::string authorization;
};
TokenCall TokenCallOf(const Discovery& discovery, const config::Provider& provider,
                      const std::string& redirect_uri, std::string_view code, const Proofs& proofs);

struct Tokens {
  std::string id_token;
  std::string access_token;  // empty: none
};
// The answer to it; an OAuth error is told by its code.
absl::StatusOr<Tokens> ReadTokens(int status, std::string_view json);

// What verifies the provider's ID tokens.
absl::StatusOr<plugins::auth::JwtVerifier> VerifierOf(const Discovery& discovery,
                                                      const config::Provider& provider);

// Whether the claims of a verified ID token belong to this attempt, and to us.
absl::Status CheckClaims(const nlohmann::json& claims, const config::Provider& provider,
                         const Proofs& proofs);

// What UserInfo may have and the claims lack: nothing, a person's name, or what a rule needs.
enum class Lack : uint8_t { kNothing, kName, kRoles };
Lack LackOf(const nlohmann::json& claims, const config::Provider& provider);
// Adds what UserInfo says and the token does not. InvalidArgument: it is about somebody else.
absl::Status AddUserInfo(std::string_view json, nlohmann::json& claims);

// The person, with every role that a rule gives. `path` makes a tenant's path of its name. PermissionDenied: no
// rule applies, and `is_member` knows of no role either, which counts beside the person's own.
absl::StatusOr<Person> PersonOf(
    const nlohmann::json& claims, const config::Provider& provider,
    const std::function<std::string(const std::string& tenant)>& path,
    const std::function<bool(const Person&)>& is_member = [](const Person&) { return false; });

// Where the browser goes to end the provider's session, too; nothing where it has no such place.
std::optional<std::string> EndSessionUrl(const Discovery& discovery, const config::Provider& provider,
                                         const std::string& id_token, const std::string& back_to);

// A provider's error code in a form that any page may show: printable ASCII, at most 100 bytes.
std::string Harmless(std::string text);

// Percent-encoded name=value pairs.
std::string Form(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace gateway::oidc
