#include "gateway/people/oidc.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/json_parse.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "plugins/auth/base64url.h"
#include "plugins/auth/claims.h"
#include "plugins/auth/digest.h"
#include "plugins/auth/hmac.h"

namespace gateway::oidc {
namespace {

using nlohmann::json;
namespace auth = plugins::auth;

constexpr size_t kMaxNameBytes = 200;
constexpr size_t kMaxErrorBytes = 100;
constexpr std::string_view kAnyValue = "*";

std::string Text(const json& object, std::string_view name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Without the slash that some providers end their names with.
std::string_view WithoutSlash(std::string_view issuer) {
  if (issuer.ends_with('/')) issuer.remove_suffix(1);
  return issuer;
}

absl::StatusOr<net::Url> Endpoint(const json& document, const char* name) {
  const std::string text = Text(document, name);
  if (text.empty()) return absl::InvalidArgumentError(fmt::format("{} is missing", name));
  absl::StatusOr<net::Url> url = net::ParseUrl(text);
  if (!url.ok())
    return absl::InvalidArgumentError(fmt::format("{}: {}", name, conf::Std(url.status().message())));
  if (!url->tls && !config::IsLoopbackHost(url->host))
    return absl::InvalidArgumentError(fmt::format("{} is not an https address", name));
  return url;
}

bool Lists(const json& document, const char* name, std::string_view value, bool otherwise) {
  const auto it = document.find(name);
  if (it == document.end() || !it->is_array()) return otherwise;
  return std::ranges::any_of(*it, [&](const json& item) { return item == value; });
}

std::string ToText(const net::Url& url) {
  return fmt::format("{}://{}{}{}{}", url.tls ? "https" : "http", url.Authority(), url.path,
                     url.query.empty() ? "" : "?", url.query);
}

// Adds fields to what the address has already.
std::string WithFields(const net::Url& url, const std::vector<std::pair<std::string, std::string>>& fields) {
  return fmt::format("{}{}{}", ToText(url), url.query.empty() ? "?" : "&", Form(fields));
}

bool Applies(const config::RoleRule& rule, const json& claims) {
  const json* const claim = auth::FindClaim(claims, rule.claim);
  if (claim == nullptr || claim->is_null()) return false;
  if (rule.value == kAnyValue) return true;
  if (claim->is_string()) return claim->get_ref<const std::string&>() == rule.value;
  return claim->is_array() &&
         std::ranges::any_of(*claim, [&](const json& item) { return item == rule.value; });
}

std::string NameOf(const json& claims) {
  for (const char* name : {"name", "preferred_username", "email", "sub"}) {
    std::string text = Text(claims, name);
    std::erase_if(text, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
    if (text.empty()) continue;
    size_t end = std::min(text.size(), kMaxNameBytes);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return text.substr(0, end);
  }
  return {};
}

}  // namespace

std::string Harmless(std::string text) {
  text = conf::OnlyPrintable(std::move(text));
  text.resize(std::min(text.size(), kMaxErrorBytes));
  return text;
}

std::string Form(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += out.empty() ? "" : "&";
    out += net::PercentEncode(name) + "=" + net::PercentEncode(value);
  }
  return out;
}

absl::StatusOr<Discovery> ReadDiscovery(std::string_view text, const config::Provider& provider) {
  const json document = conf::ParseJson(text);
  if (!document.is_object())
    return absl::InvalidArgumentError("the provider's configuration is not a JSON object");
  Discovery out;
  out.issuer = Text(document, "issuer");
  if (WithoutSlash(out.issuer) != WithoutSlash(ToString(provider.issuer))) {
    return absl::InvalidArgumentError(fmt::format("the provider calls itself \"{}\", not \"{}\"",
                                                  Harmless(out.issuer), ToString(provider.issuer)));
  }
  for (const auto& [name, url] :
       {std::pair("authorization_endpoint", &out.authorization), std::pair("token_endpoint", &out.token),
        std::pair("jwks_uri", &out.keys)}) {
    absl::StatusOr<net::Url> found = Endpoint(document, name);
    if (!found.ok()) return found.status();
    *url = *std::move(found);
  }
  if (auto url = Endpoint(document, "userinfo_endpoint"); url.ok()) out.user_info = *std::move(url);
  if (auto url = Endpoint(document, "end_session_endpoint"); url.ok()) out.end_session = *std::move(url);
  constexpr const char* kMethods = "token_endpoint_auth_methods_supported";
  out.secret_in_body = !Lists(document, kMethods, "client_secret_basic", true) &&
                       Lists(document, kMethods, "client_secret_post", false);
  return out;
}

Proofs::Proofs(std::string_view secret)
    : state(auth::HmacSha256(secret, "state")),
      nonce(auth::HmacSha256(secret, "nonce")),
      verifier(auth::HmacSha256(secret, "verifier")) {
  const auth::Digest digest = auth::Sha256(verifier);
  challenge = auth::EncodeBase64Url({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string AuthorizationUrl(const Discovery& discovery, const config::Provider& provider,
                             const std::string& redirect_uri, const Proofs& proofs) {
  std::string scopes;
  for (const std::string& scope : provider.scopes) scopes.append(scopes.empty() ? "" : " ").append(scope);
  return WithFields(discovery.authorization, {{"response_type", "code"},
                                              {"client_id", provider.client_id},
                                              {"redirect_uri", redirect_uri},
                                              {"scope", scopes},
                                              {"state", proofs.state},
                                              {"nonce", proofs.nonce},
                                              {"code_challenge", proofs.challenge},
                                              {"code_challenge_method", "S256"}});
}

TokenCall TokenCallOf(const Discovery& discovery, const config::Provider& provider,
                      const std::string& redirect_uri, std::string_view code, const Proofs& proofs) {
  std::vector<std::pair<std::string, std::string>> fields = {{"grant_type", "authorization_code"},
                                                             {"code", std::string(code)},
                                                             {"redirect_uri", redirect_uri},
                                                             {"code_verifier", proofs.verifier}};
  TokenCall call;
  const std::string secret(provider.client_secret.Reveal());
  if (secret.empty() || discovery.secret_in_body) {
    fields.emplace_back("client_id", provider.client_id);
    if (!secret.empty()) fields.emplace_back("client_secret", secret);
  } else {  // RFC 6749, 2.3.1: both are encoded first
    const std::string pair = net::PercentEncode(provider.client_id) + ":" + net::PercentEncode(secret);
    call.authorization = "Basic " + absl::Base64Escape(conf::Abseil(pair));
  }
  call.body = Form(fields);
  return call;
}

absl::StatusOr<Tokens> ReadTokens(int status, std::string_view text) {
  const json answer = conf::ParseJson(text);
  if (status != 200) {
    const std::string error = answer.is_object() ? Harmless(Text(answer, "error")) : "";
    return absl::UnauthenticatedError(fmt::format("the provider gave no token: it answered {}{}{}", status,
                                                  error.empty() ? "" : ", ", error));
  }
  Tokens tokens;
  if (answer.is_object()) {
    tokens.id_token = Text(answer, "id_token");
    tokens.access_token = Text(answer, "access_token");
  }
  if (tokens.id_token.empty()) return absl::UnauthenticatedError("the provider's answer has no ID token");
  return tokens;
}

absl::StatusOr<auth::JwtVerifier> VerifierOf(const Discovery& discovery, const config::Provider& provider) {
  auth::IssuerConfig config;
  config.name = "sign-in";
  config.issuer = discovery.issuer;
  config.audiences = {provider.client_id};
  for (const config::JwtAlgorithm algorithm : provider.algorithms)
    config.algorithms.emplace_back(Name(algorithm));
  config.maps_claims = false;
  return auth::JwtVerifier::Make(std::move(config));
}

absl::Status CheckClaims(const json& claims, const config::Provider& provider, const Proofs& proofs) {
  if (!auth::EqualInConstantTime(auth::Sha256(Text(claims, "nonce")), auth::Sha256(proofs.nonce)))
    return absl::UnauthenticatedError("the ID token was made for another attempt to sign in");
  const auto aud = claims.find("aud");
  const bool several = aud != claims.end() && aud->is_array() && aud->size() > 1;
  const std::string party = Text(claims, "azp");
  if ((several && party.empty()) || (!party.empty() && party != provider.client_id))
    return absl::UnauthenticatedError("the ID token was made for another client");
  return absl::OkStatus();
}

Lack LackOf(const json& claims, const config::Provider& provider) {
  const bool some = std::ranges::any_of(provider.roles, [&](const config::RoleRule& rule) {
    return auth::FindClaim(claims, rule.claim) == nullptr;
  });
  if (some) return Lack::kRoles;
  const bool wants_email = std::ranges::find(provider.scopes, "email") != provider.scopes.end();
  const bool complete = claims.contains("name") && (!wants_email || claims.contains("email"));
  return complete ? Lack::kNothing : Lack::kName;
}

absl::Status AddUserInfo(std::string_view text, json& claims) {
  const json info = conf::ParseJson(text);
  if (!info.is_object()) return absl::UnauthenticatedError("the provider's UserInfo is not a JSON object");
  if (Text(info, "sub") != Text(claims, "sub"))
    return absl::UnauthenticatedError("the provider's UserInfo names another person than its ID token");
  for (const auto& [name, value] : info.items()) {
    if (!claims.contains(name)) claims[name] = value;
  }
  return absl::OkStatus();
}

absl::StatusOr<Person> PersonOf(const json& claims, const config::Provider& provider,
                                const std::function<std::string(const std::string& tenant)>& path,
                                const std::function<bool(const Person&)>& is_member) {
  Person person;
  // As for tokens: two subjects never share an id, however odd they are.
  person.id = "person:" + auth::SubjectKeyId(provider.name, Text(claims, "sub")).substr(4);
  person.name = NameOf(claims);
  person.email = Text(claims, "email");
  if (person.email.size() > kMaxNameBytes) person.email.clear();
  const json* const verified = auth::FindClaim(claims, "email_verified");
  person.email_verified = verified != nullptr && (*verified == true || *verified == "true");
  person.provider = provider.name;
  for (const config::RoleRule& rule : provider.roles) {
    if (!Applies(rule, claims)) continue;
    const RoleOver over{rule.role, rule.tenant.empty() ? "" : path(rule.tenant)};
    if (std::ranges::find(person.roles, over) == person.roles.end()) person.roles.push_back(over);
    for (const auth::Right right : rule.rights) {
      if (std::ranges::find(person.rights, right) == person.rights.end()) person.rights.push_back(right);
    }
  }
  if (!person.roles.empty() || is_member(person)) return person;
  return absl::PermissionDeniedError(
      fmt::format("{} has no role here: none of the rules of people.providers applies; ask an admin",
                  person.name.empty() ? "this person" : person.name));
}

std::optional<std::string> EndSessionUrl(const Discovery& discovery, const config::Provider& provider,
                                         const std::string& id_token, const std::string& back_to) {
  if (!discovery.end_session) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> fields = {{"client_id", provider.client_id},
                                                             {"post_logout_redirect_uri", back_to}};
  if (!id_token.empty()) fields.emplace_back("id_token_hint", id_token);
  return WithFields(*discovery.end_session, fields);
}

}  // namespace gateway::oidc
