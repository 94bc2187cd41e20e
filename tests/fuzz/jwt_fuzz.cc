// Tokens, key sets, claims, key events and credentials from the outside, in any form.
//
// The first byte picks what the rest is. Beyond crashes and sanitizers it checks that nothing but the three
// tokens that were really signed is ever accepted, and that what is decoded encodes to the same text again.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plugins/auth/base64url.h"
#include "plugins/auth/claims.h"
#include "plugins/auth/credential.h"
#include "plugins/auth/jwks_cache.h"
#include "plugins/auth/jwt_authenticator.h"
#include "plugins/auth/key_record.h"
#include "plugins/auth/key_table.h"
#include "plugins/auth/strict_json.h"

namespace plugins::auth {
namespace {

constexpr std::string_view kSigned[] = {
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IkVTMjU2IiwidHlwIjoiSldUIn0.eyJhdWQiOiJ0aWRlZ2F0ZSIsImV4cCI6ND"
    "EwMjQ0NDgwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwic3ViIjoi"
    "dXNlci0xIiwidGVhbSI6InNlYXJjaCJ9.juyL3YhfOdM5evhlJ42m17OOicr7KmvK8Exoq_5SbiDIbnjX2ADkLxSXZ"
    "dPDcmdFU95FydjJMlu6oPRZD3BaDA",
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IlJTMjU2IiwidHlwIjoiSldUIn0.eyJhdWQiOiJ0aWRlZ2F0ZSIsImV4cCI6ND"
    "EwMjQ0NDgwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwic3ViIjoi"
    "dXNlci0xIiwidGVhbSI6InNlYXJjaCJ9.RTx-rWgUjNdPNtzV2PZOBEXU0WKuJYo2fM8yfAlvGsIi_anmNpkP4OlHu"
    "QioL1554cdZYwxA2BxGA1djYFQ1hgAKDjnlNxw477dhmC58J1nm5jm4jWhlYE3zcQN_zocYPJKFjYD7-2BNgQNvYmj"
    "nhKEKErD7G6zzrRYa6Lkw3_venrGqY11K19ceh1tyhy1E8OHehKfLlbdIvFIDOaZ326HIE0yxaZzT2HmwuIYSeyrBv"
    "DrYd-84UiG0coV2sMnYqHa_qfPG4G4Xn713OrJnHYMWxeKRJVnugPRxbYeWEnVdB3w-czOuhg4MH5-tAUFQGWemFdU"
    "I9CMka8Zd2-LAXw",
    "eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIiwidHlwIjoiSldUIn0.eyJhdWQiOiJ0aWRlZ2F0ZSIsImV4cCI6ND"
    "EwMjQ0NDgwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwic3ViIjoi"
    "dXNlci0xIiwidGVhbSI6InNlYXJjaCJ9.to8lm4r25aKWYw39NMunuyAEQLioBJDZ_M2gAdHVO9tcJo3ukoT3QHy08"
    "cDHVbB40czbBupK-94AtiWHRojZBg",
};
constexpr std::string_view kKeys = R"({"keys":[
{"crv":"P-256","kid":"ES256","kty":"EC","x":"CjAsUo3pG5C_-Js_M33BhGIQGoeQwLJS5vQ8RC_TVUI","y":"BX-6zNYZqe5ReQvvQLrUs94OPy7_eUDBgaVV8sxLDQ0"},
{"e":"AQAB","kid":"RS256","kty":"RSA","n":"o2fZ68UeuaoUJq1KRQtgpvGR4OPhrPdXM2YluVjEdyyFCyTjYk1uaLsqZhKM3dR0QfOqAK0LP-Mukb11wL1zaOSNQgOvCINIdvxVOnFUNcxcx6DW20kJWTVVsiCoYIudmghUF4QF8EDYenH1nfx-PClBREieX3wsutRBMi6Nn1yQ1rmDuanFUDnBRGy4Yx7wgZhUR-d-QFuqCbOyLn8-17xN3kmiF_30XIwxaeQpXl2NMDtKx1ddPJU_R_GQPxa1EdBFeeWo1-75O3CorRBBWhSnQWg1Bg7zaSrkIiBYgn-HGo-eDqj9Da88DxeihmCFlOh2Lbo7YVIOAn49OW7XdQ"},
{"crv":"Ed25519","kid":"EdDSA","kty":"OKP","x":"i4jmUAgd7gF5xLeqRMFPLhYtRdzZ6n-Ljn8WxTKgU0c"}
]})";

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

void Require(bool holds) {
  if (!holds) std::abort();
}

IssuerConfig Config() {
  IssuerConfig c;
  c.name = "fuzz";
  c.issuer = "https://login.example.com";
  c.audiences = {"tidegate"};
  for (const JwsAlgorithm& a : kJwsAlgorithms) c.algorithms.emplace_back(a.name);
  c.claims.tenant_template = "acme/{team}";
  c.claims.models_claim = "models";
  c.claims.role_claim = "/realm/roles";
  c.claims.roles = {{"root", Role::kAdmin}};
  return c;
}

JwtAuthenticator& Authenticator() {
  static JwtAuthenticator* const shard = [] {
    auto issuers = JwtAuthenticator::MakeIssuers({Config()});
    JwksCache cache{JwksPolicy()};
    Require(issuers.ok() && cache.Loaded(kKeys, kNow).ok());
    auto* made =
        new JwtAuthenticator(std::make_shared<const JwtAuthenticator::Issuers>(*std::move(issuers)), 4096);
    made->SetKeys(0, cache.Published());
    for (std::string_view token : kSigned) Require(made->Check(token, kNow).result.ok());
    return made;
  }();
  return *shard;
}

void TryToken(std::string_view token) {
  const JwtAuthenticator::Outcome outcome = Authenticator().Check(token, kNow);
  bool was_signed = false;
  for (std::string_view known : kSigned) {
    // The last part of an ECDSA token may differ: whoever knows one signature can write its mirror image.
    was_signed = was_signed || token.substr(0, token.rfind('.')) == known.substr(0, known.rfind('.'));
  }
  Require(!outcome.result.ok() || was_signed);
  Require(outcome.result.ok() == (outcome.result.identity != nullptr));
}

// "header\nclaims\nsignature", so that mutations need not get through base64.
void TryParts(std::string_view text) {
  const size_t first = text.find('\n');
  const size_t second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  if (second == std::string_view::npos) return;
  TryToken(EncodeBase64Url(text.substr(0, first)) + "." +
           EncodeBase64Url(text.substr(first + 1, second - first - 1)) + "." +
           EncodeBase64Url(text.substr(second + 1)));
}

void TryKeySet(std::string_view text) {
  const auto set = JwkSet::Parse(text);
  if (!set.ok()) return;
  for (const Jwk& key : set->keys()) {
    for (const JwsAlgorithm& algorithm : kJwsAlgorithms) {
      Require(set->Find(key.kid, algorithm).key == nullptr ||
              set->Find(key.kid, algorithm).key->Fits(algorithm));
      if (key.Fits(algorithm)) VerifyJws(algorithm, key.key.get(), "a.b", std::string(64, 'x'));
    }
  }
}

void TryClaims(std::string_view text) {
  const auto claims = ParseStrictObject(text);
  if (!claims.ok()) return;
  const auto mapped = MapClaims(*claims, Config().claims);
  if (mapped.ok()) Require(IsTenantPath(mapped->tenant) || mapped->role != Role::kNone);
}

void TryEvent(std::string_view text) {
  const auto event = DecodeEvent(text);
  if (!event.ok()) return;
  const std::string written = EncodeEvent(*event);
  const auto again = DecodeEvent(written);
  Require(again.ok() && EncodeEvent(*again) == written);
}

void TryCredential(std::string_view text) {
  CredentialReader reader;
  const size_t line = text.find('\n');
  reader.Header("authorization", text.substr(0, line));
  if (line != std::string_view::npos) reader.Header("x-api-key", text.substr(line + 1));
  const Credential& found = reader.Result();
  if (found.state != Credential::State::kFound) return;
  Require(!found.value.empty());
  Require(!Check(KeyTable(), found.value, kNow).ok());
  Classify(found.value);
  if (const auto bytes = DecodeBase64Url(found.value)) Require(EncodeBase64Url(*bytes) == found.value);
}

}  // namespace
}  // namespace plugins::auth

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plugins::auth;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*kTries[])(std::string_view) = {TryToken,  TryParts, TryKeySet,
                                                  TryClaims, TryEvent, TryCredential};
  kTries[data[0] % std::size(kTries)](text);
  return 0;
}
