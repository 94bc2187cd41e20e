// Bearer tokens of an identity provider through a running gateway: which are admitted and for whom, which are
// refused, and what happens as keys rotate, are withdrawn, or cannot be fetched.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/tls_files.h"
#include "tests/unit/plugins/auth/signer.h"

namespace tests {
namespace {

using plugins::auth::EncodeBase64Url;
using plugins::auth::Signer;
using plugins::auth::SignToken;

constexpr const char* kIssuer = "https://id.test/";

constexpr std::string_view kFailures = "tidegate_jwks_failures_total{issuer=\"https://id.test/\"}";
constexpr std::string_view kAge = "tidegate_jwks_age_seconds{issuer=\"https://id.test/\"}";

// A fetch for a key id that is not known waits for this long after the one before.
constexpr milliseconds kRotation{25'000};

int64_t Seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const Signer& OldKey() {
  return Signer::For("ES256");
}
const Signer& NewKey() {
  static const Signer key = Signer::Ec("P-256");
  return key;
}

std::string KeySet(const Signer& signer, const std::string& kid) {
  return Json{{"keys", {signer.PublicJwk(kid)}}}.dump();
}

Json Claims(const Json& more = Json::object()) {
  static int number = 0;
  Json claims{{"iss", kIssuer},
              {"aud", "tidegate"},
              {"sub", fmt::format("user-{}", ++number)},
              {"tenant", "acme"},
              {"exp", Seconds() + 60 * 60}};
  if (more.is_object()) claims.update(more);
  return claims;
}

std::string Token(const Signer& signer, const std::string& kid, const Json& claims = Claims()) {
  return SignToken(signer, "ES256", Json{{"alg", "ES256"}, {"kid", kid}}.dump(), claims.dump());
}

std::string Unsigned(const Json& header, const Json& claims) {
  return EncodeBase64Url(header.dump()) + "." + EncodeBase64Url(claims.dump()) + ".";
}

// A token of a forger who has nothing but the public key, and hopes that it is taken for a shared secret.
std::string SignedWithThePublicKey(const std::string& secret) {
  std::string token = Unsigned({{"alg", "HS256"}, {"kid", "k1"}}, Claims());
  const std::string text = token.substr(0, token.size() - 1);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return token + EncodeBase64Url({reinterpret_cast<const char*>(digest), size});
}

struct Jwt : testing::Test {
  // The issuer's section; `jwks` is file:PATH or a URL.
  static std::string Section(const std::string& jwks, std::string_view more = "refresh: 10m",
                             const char* issuer = kIssuer) {
    return fmt::format(
        "auth:\n  jwt:\n    - {{issuer: \"{}\", audience: [tidegate], algorithms: [ES256], "
        "tenant: {{claim: tenant, values: {{acme: search}}}}, leeway: 1s, jwks: \"{}\", {}}}\n",
        issuer, jwks, more);
  }
  GatewayConfig Config(const std::string& section) const {
    return {.replicas = {engine.port()},
            .tenants = "  - {name: search, parent: demo}\n",
            .sections = section,
            .anonymous = false};
  }
  static std::string Url(const FakeUpstream& provider) {
    return fmt::format("http://127.0.0.1:{}/jwks.json", provider.port());
  }
  static Answer Ask(const GatewayProcess& gateway, const std::string& token, std::string_view headers = "") {
    return gateway.Ask(
        Chat({{"max_tokens", 1}}, fmt::format("Authorization: Bearer {}\r\n{}", token, headers)));
  }
  static bool Admits(const GatewayProcess& gateway, const std::string& token,
                     milliseconds patience = RawClient::kPatience) {
    return tests::Within(patience, [&] {
      if (Ask(gateway, token).status == 200) return true;
      tests::Pause(milliseconds(50));
      return false;
    });
  }
  static bool ComesToRefuse(const GatewayProcess& gateway, const std::string& token) {
    return tests::Within(RawClient::kPatience, [&] { return Ask(gateway, token).status == 401; });
  }

  EngineProcess engine;
  tests::TempDir folder;
  const std::string file = folder / "jwks.json";
};

TEST_F(Jwt, ATokenIsChargedToTheTenantThatItsClaimNames) {
  std::ofstream(file) << KeySet(OldKey(), "k1");
  const GatewayProcess gateway(Config(Section("file:" + file)));
  ASSERT_TRUE(Admits(gateway, Token(OldKey(), "k1")));
  const Answer answer =
      Ask(gateway, Token(OldKey(), "k1", Claims({{"sub", "ada"}})), "x-request-id: by-token\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto close = gateway.CloseOf("by-token");
  EXPECT_EQ(close.tenant, "demo/search");
  EXPECT_THAT(close.key, testing::HasSubstr("ada"));
  // Where the provider's value is not in the table, it is nobody here, and a name of a tenant is no value.
  for (const char* value : {"globex", "search", "demo", ""}) {
    EXPECT_EQ(Ask(gateway, Token(OldKey(), "k1", Claims({{"tenant", value}}))).status, 401) << value;
  }
}

TEST_F(Jwt, RefusesWhatTheIssuerDidNotSignForThisServiceAtThisTime) {
  const std::string keys = KeySet(OldKey(), "k1");
  std::ofstream(file) << keys;
  const GatewayProcess gateway(Config(Section("file:" + file)));
  ASSERT_TRUE(Admits(gateway, Token(OldKey(), "k1")));
  const uint64_t before = engine.Stat("/requests/received");
  const std::string good = Token(OldKey(), "k1");
  const Json none{{"alg", "none"}, {"kid", "k1"}};
  std::string other_claims = good;
  other_claims.replace(good.find('.') + 1, good.rfind('.') - good.find('.') - 1,
                       EncodeBase64Url(Claims({{"sub", "root"}}).dump()));
  Json endless = Claims();
  endless.erase("exp");
  const struct {
    const char* name;
    std::string token;
    const char* code = "invalid_api_key";
  } cases[] = {
      {"expired", Token(OldKey(), "k1", Claims({{"exp", Seconds() - 60}})), "key_expired"},
      {"without an end", Token(OldKey(), "k1", endless)},
      {"not valid yet", Token(OldKey(), "k1", Claims({{"nbf", Seconds() + 600}}))},
      {"of another issuer", Token(OldKey(), "k1", Claims({{"iss", "https://other.test/"}}))},
      {"for another service", Token(OldKey(), "k1", Claims({{"aud", "payroll"}}))},
      {"for several other services", Token(OldKey(), "k1", Claims({{"aud", {"payroll", "mail"}}}))},
      {"alg none", Unsigned(none, Claims())},
      {"alg none with a signature", Unsigned(none, Claims()) + good.substr(good.rfind('.') + 1)},
      {"HMAC with the public key", SignedWithThePublicKey(keys)},
      {"HMAC with the public key alone", SignedWithThePublicKey(OldKey().PublicJwk("k1").dump())},
      {"an unknown key id", Token(OldKey(), "k2")},
      {"signed by another key", Token(NewKey(), "k1")},
      {"other claims under the signature", other_claims},
      {"cut", good.substr(0, good.size() - 4)},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Answer answer = Ask(gateway, c.token);
    EXPECT_EQ(answer.status, 401) << answer.body;
    EXPECT_EQ(answer.code(), c.code) << answer.body;
    EXPECT_THAT(answer.body, testing::Not(testing::HasSubstr(c.token.substr(0, 40))))
        << "a token is a secret";
  }
  EXPECT_EQ(engine.Stat("/requests/received"), before);
  EXPECT_EQ(Ask(gateway, good).status, 200);
}

TEST_F(Jwt, AFileOfKeysIsTakenUpWhenItChanges) {
  std::ofstream(file) << KeySet(OldKey(), "k1");
  const GatewayProcess gateway(Config(Section("file:" + file)));
  const std::string old_token = Token(OldKey(), "k1");
  ASSERT_TRUE(Admits(gateway, old_token));
  std::ofstream(file) << "{ this is no key set";
  ASSERT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(kFailures).value_or(0) > 0; }));
  EXPECT_EQ(Ask(gateway, old_token).status, 200) << "the known keys stay";
  std::ofstream(file) << KeySet(NewKey(), "a-longer-key-id");
  EXPECT_TRUE(Admits(gateway, Token(NewKey(), "a-longer-key-id")));
  EXPECT_TRUE(ComesToRefuse(gateway, old_token)) << "a key that is withdrawn ends the tokens that it signed";
}

TEST_F(Jwt, ATokenOfANewKeyIsAdmittedOnceTheKeySetIsFetchedAgain) {
  FakeUpstream provider(JsonAnswer(KeySet(OldKey(), "k1")));
  const GatewayProcess gateway(Config(Section(Url(provider))));
  const std::string old_token = Token(OldKey(), "k1");
  ASSERT_TRUE(Admits(gateway, old_token));
  EXPECT_EQ(provider.requests(), 1u);
  provider.Say(JsonAnswer(KeySet(NewKey(), "k2")));
  const std::string new_token = Token(NewKey(), "k2");
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {  // once every shard has the keys
    return Ask(gateway, new_token).code() == "invalid_api_key";
  }));
  EXPECT_TRUE(Admits(gateway, new_token, kRotation)) << "long before refresh is due";
  EXPECT_TRUE(ComesToRefuse(gateway, old_token));
  EXPECT_LE(provider.requests(), 3u) << "tokens with unknown keys must not make the gateway hammer it";
}

TEST_F(Jwt, KeepsUsingItsKeysWhileTheProviderIsDown) {
  const tests::FreePort port;
  auto provider = std::make_unique<FakeUpstream>(JsonAnswer(KeySet(OldKey(), "k1")), port.number());
  const GatewayConfig config = Config(Section(Url(*provider), "refresh: 10s"));
  GatewayProcess gateway(config);
  ASSERT_TRUE(Admits(gateway, Token(OldKey(), "k1")));
  provider.reset();
  EXPECT_TRUE(tests::Within(kRotation, [&] { return gateway.Metric(kFailures).value_or(0) > 0; }));
  EXPECT_GE(gateway.Metric(kAge).value_or(0), 10);
  EXPECT_EQ(Ask(gateway, Token(OldKey(), "k1")).status, 200);
  // A reload of the same issuer forgets nothing.
  gateway.Reload();
  EXPECT_EQ(gateway.Metric("tidegate_config_last_reload_successful"), 1);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Ask(gateway, Token(OldKey(), "k1")).status, 200);

  provider = std::make_unique<FakeUpstream>(JsonAnswer(KeySet(NewKey(), "k2")), port.number());
  EXPECT_TRUE(Admits(gateway, Token(NewKey(), "k2"), kRotation)) << "it is asked again when it is back";
  EXPECT_LT(gateway.Metric(kAge).value_or(100), 10);
}

TEST_F(Jwt, KeysOfAnIssuerThatIsReplacedVerifyNothingOfTheNewOne) {
  FakeUpstream provider(JsonAnswer(KeySet(OldKey(), "k1")));
  GatewayProcess gateway(Config(Section(Url(provider))));
  ASSERT_TRUE(Admits(gateway, Token(OldKey(), "k1")));
  constexpr const char* kOther = "https://other.test/";
  const tests::FreePort nobody;
  const std::string nowhere = fmt::format("http://127.0.0.1:{}/jwks.json", nobody.number());
  gateway.WriteConfig(Config(Section(nowhere, "refresh: 10m", kOther)));
  gateway.Reload();
  ASSERT_EQ(gateway.Metric("tidegate_config_last_reload_successful"), 1);
  EXPECT_TRUE(ComesToRefuse(gateway, Token(OldKey(), "k1"))) << "its issuer is not configured any more";
  for (int i = 0; i < 8; ++i) {
    const Answer answer = Ask(gateway, Token(OldKey(), "k1", Claims({{"iss", kOther}})));
    EXPECT_NE(answer.status, 200) << "signed by the old issuer in the new one's name";
  }
}

TEST_F(Jwt, AProviderIsVerifiedByTheNameThatIsConfigured) {
  // Its certificate is for a name, its address is a number: tls.server_name says what to expect.
  const tests::TlsFiles tls("DNS:login.example.com");
  const tests::FreePort port;
  const std::string keys = KeySet(OldKey(), "k1");
  std::ofstream(folder / "jwks") << JsonAnswer(keys);
  const tests::ChildProcess provider(
      {"/bin/sh", "-c",
       fmt::format("cd {} && exec openssl s_server -quiet -HTTP -accept 127.0.0.1:{} -cert {} -key {}",
                   folder.path(), port.number(), tls.certificate(), tls.key())},
      folder / "provider.log");
  const std::string url = fmt::format("https://127.0.0.1:{}/jwks", port.number());
  const GatewayProcess named(Config(
      Section(url, fmt::format("tls: {{ca: {}, server_name: login.example.com}}", tls.certificate()))));
  EXPECT_TRUE(Admits(named, Token(OldKey(), "k1")));
  const GatewayProcess unnamed(Config(Section(url, fmt::format("tls: {{ca: {}}}", tls.certificate()))));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return unnamed.Metric(kFailures).value_or(0) > 0; }));
  EXPECT_EQ(Ask(unnamed, Token(OldKey(), "k1")).code(), "issuer_unavailable");
}

}  // namespace
}  // namespace tests
