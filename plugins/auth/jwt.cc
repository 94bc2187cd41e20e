#include "plugins/auth/jwt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "conf/words.h"
#include "plugins/auth/base64url.h"
#include "plugins/auth/strict_json.h"

namespace plugins::auth {
namespace {

using nlohmann::json;

constexpr conf::Duration kMaxLeeway = std::chrono::minutes(5);
constexpr double kFarthestSecond = 9e9;  // year 2255; beyond it nanoseconds no longer fit

constexpr conf::Word<JwtRefusal> kRefusals[] = {
    {"none", JwtRefusal::kNone},
    {"too_large", JwtRefusal::kTooLarge},
    {"malformed", JwtRefusal::kMalformed},
    {"repeated_member", JwtRefusal::kRepeatedMember},
    {"algorithm", JwtRefusal::kAlgorithm},
    {"critical_header", JwtRefusal::kCritical},
    {"type", JwtRefusal::kType},
    {"issuer", JwtRefusal::kIssuer},
    {"unknown_key", JwtRefusal::kUnknownKey},
    {"key_mismatch", JwtRefusal::kKeyMismatch},
    {"signature", JwtRefusal::kSignature},
    {"expired", JwtRefusal::kExpired},
    {"not_yet_valid", JwtRefusal::kNotYetValid},
    {"issued_later", JwtRefusal::kIssuedLater},
    {"audience", JwtRefusal::kAudience},
    {"claim", JwtRefusal::kClaim},
    {"no_tenant", JwtRefusal::kNoTenant},
    {"no_keys", JwtRefusal::kNoKeys},
};

JwtResult Refuse(JwtRefusal refusal, std::string message) {
  return {refusal, std::move(message), nullptr};
}

JwtResult ParsePart(std::string_view text, std::string_view what, json* out) {
  const std::optional<std::string> bytes = DecodeBase64Url(text);
  if (!bytes) return Refuse(JwtRefusal::kMalformed, fmt::format("the token's {} is not base64url", what));
  absl::StatusOr<json> object = ParseStrictObject(*bytes);
  if (!object.ok()) {
    const JwtRefusal why = conf::Std(object.status().message()).starts_with("has a member twice")
                               ? JwtRefusal::kRepeatedMember
                               : JwtRefusal::kMalformed;
    return Refuse(why, fmt::format("the token's {} {}", what, std::string(object.status().message())));
  }
  *out = *std::move(object);
  return {};
}

std::string_view TextOf(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? std::string_view(it->get_ref<const std::string&>())
                                               : std::string_view();
}

// RFC 7519 NumericDate. Nothing for what is no number; far-off dates are cut to what the clock can hold.
std::optional<conf::TimePoint> NumericDate(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double seconds = std::clamp(value.get<double>(), -kFarthestSecond, kFarthestSecond);
  const auto whole = static_cast<int64_t>(seconds);
  const auto nanos = static_cast<int64_t>((seconds - static_cast<double>(whole)) * 1e9);
  return conf::TimePoint(std::chrono::seconds(whole) + std::chrono::nanoseconds(nanos));
}

// RFC 7515 4.1.9: "application/" may be left out, and case does not count.
std::string_view MediaType(std::string_view type) {
  constexpr std::string_view kApplication = "application/";
  if (conf::EqualsIgnoreCase(type.substr(0, kApplication.size()), kApplication)) {
    type.remove_prefix(kApplication.size());
  }
  return type;
}

bool IsIssuerName(std::string_view name) {
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::string_view RefusalName(JwtRefusal refusal) {
  return conf::WordOf(kRefusals, refusal);
}

std::string_view ParsedJwt::Issuer() const {
  return TextOf(claims, "iss");
}

JwtResult ParseJwt(std::string_view token, ParsedJwt* out) {
  if (token.size() > kMaxTokenBytes) {
    return Refuse(JwtRefusal::kTooLarge,
                  fmt::format("the token has {} bytes; at most {} are read", token.size(), kMaxTokenBytes));
  }
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return Refuse(JwtRefusal::kMalformed, "the token must have three parts joined by dots");
  }
  JwtResult header = ParsePart(token.substr(0, first), "header", &out->header);
  if (!header.ok()) return header;
  JwtResult claims = ParsePart(token.substr(first + 1, second - first - 1), "claims", &out->claims);
  if (!claims.ok()) return claims;
  std::optional<std::string> signature = DecodeBase64Url(token.substr(second + 1));
  if (!signature) return Refuse(JwtRefusal::kMalformed, "the token's signature is not base64url");
  out->signed_text = token.substr(0, second);
  out->signature = *std::move(signature);
  return {};
}

absl::StatusOr<JwtVerifier> JwtVerifier::Make(IssuerConfig config) {
  const auto bad = [](std::string message) { return absl::InvalidArgumentError(message); };
  if (!IsIssuerName(config.name)) {
    return bad(fmt::format("name: \"{}\" must be 1 to 32 of a-z, 0-9 and '-'", config.name));
  }
  if (config.issuer.empty()) return bad("issuer: give the value of the tokens' \"iss\"");
  if (config.audiences.empty()) {
    return bad("audiences: at least one is needed, or tokens for other services would be accepted here");
  }
  if (std::find(config.audiences.begin(), config.audiences.end(), "") != config.audiences.end()) {
    return bad("audiences: one is empty");
  }
  if (config.algorithms.empty()) return bad("algorithms: at least one is needed, such as ES256 or RS256");
  std::vector<std::string_view> known;
  known.reserve(std::size(kJwsAlgorithms));
  for (const JwsAlgorithm& algorithm : kJwsAlgorithms) known.push_back(algorithm.name);
  for (const std::string& name : config.algorithms) {
    if (FindJwsAlgorithm(name) == nullptr) {
      return bad(fmt::format("algorithms: \"{}\" is not one of {}", name, fmt::join(known, ", ")));
    }
  }
  if (config.leeway < conf::Duration::zero() || config.leeway > kMaxLeeway) {
    return bad(
        fmt::format("leeway: {} must be 0 to {}", conf::InWords(config.leeway), conf::InWords(kMaxLeeway)));
  }
  if (absl::Status s = config.maps_claims ? CheckMapping(config.claims) : absl::OkStatus(); !s.ok()) {
    return bad(fmt::format("claims/{}", std::string(s.message())));
  }
  return JwtVerifier(std::move(config));
}

JwtResult JwtVerifier::Verify(std::string_view token, const JwkSet& keys, conf::TimePoint now) const {
  ParsedJwt parsed;
  JwtResult result = ParseJwt(token, &parsed);
  return result.ok() ? Verify(parsed, keys, now) : result;
}

JwtResult JwtVerifier::Verify(const ParsedJwt& token, const JwkSet& keys, conf::TimePoint now) const {
  const JwsAlgorithm* algorithm = nullptr;
  if (JwtResult r = CheckHeader(token.header, &algorithm); !r.ok()) return r;
  if (JwtResult r = CheckSignature(token, *algorithm, keys); !r.ok()) return r;
  auto identity = std::make_shared<JwtIdentity>();
  if (JwtResult r = CheckParties(token.claims); !r.ok()) return r;
  if (JwtResult r = CheckTimes(token.claims, now, &identity->valid_until); !r.ok()) return r;
  const std::string_view subject = TextOf(token.claims, "sub");
  if (subject.empty() || subject.size() > kMaxSubjectBytes) {
    return Refuse(JwtRefusal::kClaim,
                  fmt::format("claim \"sub\" must be text of 1 to {} bytes", kMaxSubjectBytes));
  }
  identity->key_id = SubjectKeyId(config_.name, subject);
  identity->issuer = config_.name;
  if (!config_.maps_claims) return {JwtRefusal::kNone, {}, std::move(identity)};
  absl::StatusOr<Mapped> mapped = MapClaims(token.claims, config_.claims);
  if (!mapped.ok()) {
    return Refuse(absl::IsNotFound(mapped.status()) ? JwtRefusal::kNoTenant : JwtRefusal::kClaim,
                  std::string(mapped.status().message()));
  }
  identity->tenant = std::move(mapped->tenant);
  identity->permissions = std::move(mapped->permissions);
  identity->role = mapped->role;
  return {JwtRefusal::kNone, {}, std::move(identity)};
}

JwtResult JwtVerifier::CheckHeader(const json& header, const JwsAlgorithm** algorithm) const {
  if (header.contains("crit")) {
    return Refuse(JwtRefusal::kCritical, "the token's header has \"crit\", and no extension is supported");
  }
  const std::string_view alg = TextOf(header, "alg");
  *algorithm = FindJwsAlgorithm(alg);
  const bool allowed =
      std::find(config_.algorithms.begin(), config_.algorithms.end(), alg) != config_.algorithms.end();
  if (*algorithm == nullptr || !allowed) {
    return Refuse(JwtRefusal::kAlgorithm, fmt::format("the token's \"alg\" must be one of {} for issuer {}",
                                                      fmt::join(config_.algorithms, ", "), config_.name));
  }
  const auto kid = header.find("kid");
  if (kid != header.end() && (!kid->is_string() || kid->get_ref<const std::string&>().empty())) {
    return Refuse(JwtRefusal::kMalformed, "the token's \"kid\" must be text");
  }
  const std::string_view type = MediaType(TextOf(header, "typ"));
  const bool typed = config_.types.empty() ||
                     std::any_of(config_.types.begin(), config_.types.end(), [&](const std::string& t) {
                       return conf::EqualsIgnoreCase(MediaType(t), type);
                     });
  if (!typed) {
    return Refuse(JwtRefusal::kType, fmt::format("the token's \"typ\" must be one of {} for issuer {}",
                                                 fmt::join(config_.types, ", "), config_.name));
  }
  return {};
}

JwtResult JwtVerifier::CheckSignature(const ParsedJwt& token, const JwsAlgorithm& algorithm,
                                      const JwkSet& keys) const {
  const JwkSet::Found found = keys.Find(TextOf(token.header, "kid"), algorithm);
  switch (found.state) {
    case JwkSet::Found::State::kFound:
      break;
    case JwkSet::Found::State::kUnknownKid:
      return Refuse(JwtRefusal::kUnknownKey,
                    fmt::format("the key set of issuer {} has no key for this token", config_.name));
    case JwkSet::Found::State::kWrongKind:
      return Refuse(JwtRefusal::kKeyMismatch,
                    fmt::format("the token's key of issuer {} is not for {}", config_.name, algorithm.name));
    case JwkSet::Found::State::kAmbiguous:
      return Refuse(
          JwtRefusal::kKeyMismatch,
          fmt::format("the token could be of several keys of issuer {}: it needs a \"kid\" that names one",
                      config_.name));
  }
  if (!VerifyJws(algorithm, found.key->key.get(), token.signed_text, token.signature)) {
    return Refuse(JwtRefusal::kSignature, "the token's signature does not match");
  }
  return {};
}

JwtResult JwtVerifier::CheckParties(const json& claims) const {
  if (TextOf(claims, "iss") != config_.issuer) {
    return Refuse(JwtRefusal::kIssuer, fmt::format("claim \"iss\" must be \"{}\"", config_.issuer));
  }
  const auto named = [&](const json& audience) {
    return audience.is_string() &&
           std::find(config_.audiences.begin(), config_.audiences.end(),
                     audience.get_ref<const std::string&>()) != config_.audiences.end();
  };
  const auto aud = claims.find("aud");
  const bool texts = aud != claims.end() && aud->is_array() &&
                     std::all_of(aud->begin(), aud->end(), [](const json& a) { return a.is_string(); });
  if (aud == claims.end() || !(texts ? std::any_of(aud->begin(), aud->end(), named) : named(*aud))) {
    return Refuse(JwtRefusal::kAudience,
                  fmt::format("claim \"aud\" must hold one of {}", fmt::join(config_.audiences, ", ")));
  }
  return {};
}

JwtResult JwtVerifier::CheckTimes(const json& claims, conf::TimePoint now,
                                  conf::TimePoint* valid_until) const {
  std::optional<conf::TimePoint> times[3];
  const char* const names[3] = {"exp", "nbf", "iat"};
  for (size_t i = 0; i < 3; ++i) {
    const auto it = claims.find(names[i]);
    if (it == claims.end()) continue;
    times[i] = NumericDate(*it);
    if (!times[i]) {
      return Refuse(JwtRefusal::kClaim, fmt::format("claim \"{}\" must be a number of seconds", names[i]));
    }
  }
  const auto& [exp, nbf, iat] = times;
  if (!exp)
    return Refuse(JwtRefusal::kClaim, "claim \"exp\" is needed: a token without an expiry is not accepted");
  *valid_until = *exp + config_.leeway;
  if (now >= *valid_until) {
    return Refuse(JwtRefusal::kExpired, fmt::format("the token expired at {}", conf::FormatTime(*exp)));
  }
  if (nbf && now + config_.leeway < *nbf) {
    return Refuse(JwtRefusal::kNotYetValid,
                  fmt::format("the token is not valid before {}", conf::FormatTime(*nbf)));
  }
  if (iat && now + config_.leeway < *iat) {
    return Refuse(JwtRefusal::kIssuedLater,
                  fmt::format("the token says that it was issued at {}, which is in the future",
                              conf::FormatTime(*iat)));
  }
  return {};
}

}  // namespace plugins::auth
