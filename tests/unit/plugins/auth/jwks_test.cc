#include "plugins/auth/jwks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/plugins/auth/signer.h"

namespace plugins::auth {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string SetOf(const std::vector<json>& keys) {
  return json{{"keys", keys}}.dump();
}

TEST(Jwks, UnusableKeysAreLeftOutWithTheReason) {
  const auto with = [](const char* algorithm, const std::function<void(json&)>& change) {
    json jwk = Signer::For(algorithm).PublicJwk("k");
    change(jwk);
    return jwk;
  };
  const struct {
    json jwk;
    const char* reason;
  } cases[] = {
      {with("RS256", [](json& k) { k["use"] = "enc"; }), "not for signatures"},
      {with("RS256", [](json& k) { k["use"] = 1; }), "not for signatures"},
      {with("RS256", [](json& k) { k["key_ops"] = {"encrypt"}; }), "not for verifying"},
      {with("RS256", [](json& k) { k["key_ops"] = "verify"; }), "not for verifying"},
      {with("RS256", [](json& k) { k["alg"] = "ES256"; }), "\"alg\""},
      {with("RS256", [](json& k) { k["alg"] = "HS256"; }), "\"alg\""},
      {with("RS256", [](json& k) { k["alg"] = 5; }), "\"alg\""},
      {with("RS256", [](json& k) { k["kid"] = 5; }), "\"kid\""},
      {with("RS256", [](json& k) { k["kid"] = std::string(257, 'k'); }), "\"kid\""},
      {with("RS256", [](json& k) { k["e"] = "AQ"; }), "exponent"},
      {with("RS256", [](json& k) { k["e"] = "Ag"; }), "exponent"},
      {with("RS256", [](json& k) { k["e"] = k["n"]; }), "exponent"},
      {with("RS256", [](json& k) { k["n"] = k["n"].get<std::string>() + "="; }), "\"n\""},
      {with("RS256", [](json& k) { k.erase("n"); }), "\"n\""},
      {with("RS256", [](json& k) { k["n"] = "Aw"; }), "2 bits"},
      {with("RS256", [](json& k) { k["n"] = std::string(1400, '_'); }), "8400 bits"},
      {with("RS256", [](json& k) { k["d"] = "AQAB"; }), "private"},
      {Signer::Rsa(1024).PublicJwk("k"), "1024 bits"},
      {with("ES256", [](json& k) { k["crv"] = "P-384"; }), "coordinates of 48 bytes"},
      {with("ES256", [](json& k) { k["crv"] = "secp256k1"; }), "curve"},
      {with("ES256", [](json& k) { k["x"] = k["y"]; }), "valid"},
      {with("ES256", [](json& k) { k["alg"] = "ES384"; }), "\"alg\""},
      {with("EdDSA", [](json& k) { k["crv"] = "X25519"; }), "curve"},
      {with("EdDSA", [](json& k) { k["x"] = "AAAA"; }), "32 bytes"},
      {json{{"kty", "oct"}, {"k", "c2VjcmV0"}}, "symmetric"},
      {json{{"kty", "DSA"}}, "\"kty\""},
      {json::object(), "\"kty\""},
      {json("text"), "not an object"},
  };
  for (const auto& c : cases) {
    const auto set = JwkSet::Parse(SetOf({Signer::For("EdDSA").PublicJwk("good"), c.jwk}));
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->keys().size(), 1u) << c.reason << c.jwk;
    ASSERT_EQ(set->skipped().size(), 1u) << c.reason << c.jwk;
    EXPECT_THAT(set->skipped()[0], HasSubstr("key 1"));
    EXPECT_THAT(set->skipped()[0], HasSubstr(c.reason));
  }
}

TEST(Jwks, DocumentsThatAreNoKeySetAreErrors) {
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"),
                                  std::string(R"({"keys":{}})"), std::string(R"({"keys":[],"keys":[]})"),
                                  std::string(R"({"keys":[]} x)"), std::string("{\"keys\":[\"\xff\"]}"),
                                  R"({"keys":)" + std::string(20, '[') + std::string(20, ']') + "}",
                                  R"({"keys":[]})" + std::string(kMaxJwksBytes, ' '),
                                  SetOf(std::vector<json>(kMaxJwksKeys + 1, json(1)))}) {
    EXPECT_FALSE(JwkSet::Parse(text).ok()) << text.substr(0, 60);
  }
}

TEST(Jwks, ARepeatedKidNamesTheFirst) {
  const auto set =
      JwkSet::Parse(SetOf({Signer::For("ES256").PublicJwk("k"), Signer::Ec("P-256").PublicJwk("k"),
                           Signer::For("ES384").PublicJwk("k"), Signer::For("RS256").PublicJwk("k")}));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->keys().size(), 3u) << "a kid may stand once for each kind of key";
  ASSERT_EQ(set->skipped().size(), 1u);
  EXPECT_THAT(set->skipped()[0], HasSubstr("key 1"));
}

TEST(Jwks, FindsByKidAndByWhatFits) {
  json only_ps = Signer::For("RS256").PublicJwk("rsa-ps");
  only_ps["alg"] = "PS256";
  const auto set =
      *JwkSet::Parse(SetOf({Signer::For("ES256").PublicJwk("a"), Signer::Ec("P-256").PublicJwk("b"), only_ps,
                            Signer::For("EdDSA").PublicJwk("ed")}));
  using State = JwkSet::Found::State;
  const struct {
    const char* kid;
    const char* algorithm;
    State state;
    const char* found;
  } cases[] = {
      {"a", "ES256", State::kFound, "a"},           {"b", "ES256", State::kFound, "b"},
      {"c", "ES256", State::kUnknownKid, ""},       {"A", "ES256", State::kUnknownKid, ""},
      {"a", "RS256", State::kWrongKind, ""},        {"a", "ES384", State::kWrongKind, ""},
      {"rsa-ps", "PS256", State::kFound, "rsa-ps"}, {"rsa-ps", "RS256", State::kWrongKind, ""},
      {"rsa-ps", "PS384", State::kWrongKind, ""},   {"", "EdDSA", State::kFound, "ed"},
      {"", "ES256", State::kAmbiguous, ""},         {"", "ES512", State::kUnknownKid, ""},
  };
  for (const auto& c : cases) {
    const JwkSet::Found found = set.Find(c.kid, *FindJwsAlgorithm(c.algorithm));
    EXPECT_EQ(found.state, c.state) << c.kid << " " << c.algorithm;
    EXPECT_EQ(found.key == nullptr ? "" : found.key->kid, c.found) << c.kid << " " << c.algorithm;
  }
}

}  // namespace
}  // namespace plugins::auth
