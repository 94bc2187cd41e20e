#include "plugins/auth/jwt_authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugins/auth/signer.h"

namespace plugins::auth {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");
const int64_t kNowSeconds = conf::ToUnixMicros(kNow) / 1'000'000;
constexpr size_t kCacheBytes = 64 * 1024;

IssuerConfig Config(const char* name) {
  IssuerConfig c;
  c.name = name;
  c.issuer = std::string("https://") + name;
  c.audiences = {"tidegate"};
  c.algorithms = {"ES256", "RS256"};
  c.leeway = 0s;
  c.claims.tenant_template = std::string(name) + "/{team}";
  return c;
}

std::shared_ptr<const JwtAuthenticator::Issuers> TwoIssuers() {
  auto issuers = JwtAuthenticator::MakeIssuers({Config("one"), Config("two")});
  EXPECT_TRUE(issuers.ok()) << issuers.status();
  return std::make_shared<const JwtAuthenticator::Issuers>(*std::move(issuers));
}

std::string Token(const char* issuer, const std::string& subject, const Signer& signer = Signer::For("ES256"),
                  int64_t lives = 300) {
  const json claims = {{"iss", std::string("https://") + issuer},
                       {"aud", "tidegate"},
                       {"sub", subject},
                       {"exp", kNowSeconds + lives},
                       {"team", "search"}};
  return SignToken(signer, "ES256", R"({"alg":"ES256","kid":"k"})", claims.dump());
}

PublishedKeys Keys(const Signer& signer, uint64_t generation, const char* kid = "k") {
  const std::string text = json{{"keys", {signer.PublicJwk(kid)}}}.dump();
  return {std::make_shared<const JwkSet>(*JwkSet::Parse(text)), generation, kNow + 1h};
}

std::string Name(const JwtAuthenticator::Outcome& o) {
  return std::string(RefusalName(o.result.refusal));
}

TEST(JwtAuthenticator, PicksTheIssuerThatTheTokenNames) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  const Signer other = Signer::Ec("P-256");
  shard.SetKeys(1, Keys(other, 1));
  EXPECT_EQ(shard.Check(Token("one", "u"), kNow).result.identity->tenant, "one/search");
  EXPECT_EQ(shard.Check(Token("two", "u", other), kNow).result.identity->tenant, "two/search");
  EXPECT_EQ(Name(shard.Check(Token("two", "u"), kNow)), "signature") << "one issuer cannot speak for another";
  const auto stranger = shard.Check(Token("three", "u"), kNow);
  EXPECT_EQ(Name(stranger), "issuer");
  EXPECT_EQ(stranger.issuer, JwtAuthenticator::kNoIssuer);
}

TEST(JwtAuthenticator, ASeenTokenIsAnsweredFromTheCacheUntilItEnds) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  const std::string token = Token("one", "u");
  const auto first = shard.Check(token, kNow);
  ASSERT_TRUE(first.result.ok());
  const auto again = shard.Check(token, kNow + 300s - 1ns);
  EXPECT_EQ(again.result.identity, first.result.identity)
      << "the very same object: nothing was verified anew";
  EXPECT_EQ(again.issuer, 0u);
  EXPECT_EQ(shard.cache().size(), 1u);
  EXPECT_EQ(Name(shard.Check(token, kNow + 300s)), "expired");
  EXPECT_EQ(shard.cache().size(), 0u);
}

TEST(JwtAuthenticator, AWithdrawnKeyEndsTheTokensItSigned) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  const std::string token = Token("one", "u");
  ASSERT_TRUE(shard.Check(token, kNow).result.ok());
  shard.SetKeys(0, Keys(Signer::Ec("P-256"), 2));
  EXPECT_EQ(Name(shard.Check(token, kNow)), "signature");
  shard.SetKeys(0, Keys(Signer::Ec("P-256"), 3, "new"));
  const auto unknown = shard.Check(token, kNow);
  EXPECT_EQ(Name(unknown), "unknown_key");
  EXPECT_EQ(unknown.issuer, 0u) << "so that its keys can be fetched";
}

TEST(JwtAuthenticator, KeysThatChangeForOneIssuerLeaveTheOthersTokens) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  shard.SetKeys(1, Keys(Signer::For("ES256"), 1));
  const auto one = shard.Check(Token("one", "u"), kNow).result.identity;
  const std::string token = Token("two", "u");
  const auto two = shard.Check(token, kNow).result.identity;
  shard.SetKeys(0, Keys(Signer::For("ES256"), 2));
  EXPECT_EQ(shard.Check(token, kNow).result.identity, two);
}

TEST(JwtAuthenticator, KeysThatAreTooOldVerifyNothingNotEvenCachedTokens) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  EXPECT_EQ(Name(shard.Check(Token("one", "u"), kNow)), "no_keys");
  PublishedKeys keys = Keys(Signer::For("ES256"), 1);
  keys.usable_until = kNow + 10s;
  shard.SetKeys(0, keys);
  const std::string token = Token("one", "u");
  EXPECT_TRUE(shard.Check(token, kNow + 10s - 1ns).result.ok());
  EXPECT_EQ(Name(shard.Check(token, kNow + 10s)), "no_keys");
  keys.usable_until = kNow + 20s;
  shard.SetKeys(0, keys);
  EXPECT_TRUE(shard.Check(token, kNow + 10s).result.ok());
}

TEST(JwtAuthenticator, RefusedTokensAreNotKept) {
  JwtAuthenticator shard(TwoIssuers(), kCacheBytes);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(shard.Check(Token("one", "u", Signer::Ec("P-256")), kNow).result.ok());
    EXPECT_FALSE(shard.Check(std::string(20000, 'x'), kNow).result.ok());
    EXPECT_FALSE(shard.Check("a.b.c", kNow).result.ok());
  }
  EXPECT_EQ(shard.cache().size(), 0u);
}

TEST(JwtAuthenticator, TheCacheKeepsToItsBytesAndToWhatIsUsed) {
  JwtAuthenticator shard(TwoIssuers(), 4096);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  const std::string steady = Token("one", "steady");
  const auto identity = shard.Check(steady, kNow).result.identity;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(shard.Check(Token("one", "u" + std::to_string(i)), kNow).result.ok());
    ASSERT_LE(shard.cache().bytes(), 4096u);
    ASSERT_EQ(shard.Check(steady, kNow).result.identity, identity) << i;
  }
  EXPECT_GT(shard.cache().evicted(), 0u);
  EXPECT_EQ(shard.cache().size() + shard.cache().evicted(), 51u);
}

TEST(JwtAuthenticator, WithoutRoomForOneTokenItStillVerifies) {
  JwtAuthenticator shard(TwoIssuers(), 0);
  shard.SetKeys(0, Keys(Signer::For("ES256"), 1));
  const std::string token = Token("one", "u");
  EXPECT_TRUE(shard.Check(token, kNow).result.ok());
  EXPECT_TRUE(shard.Check(token, kNow).result.ok());
  EXPECT_EQ(shard.cache().size(), 0u);
}

TEST(JwtAuthenticator, IssuersMustDifferInNameAndIss) {
  IssuerConfig same_iss = Config("two");
  same_iss.issuer = Config("one").issuer;
  IssuerConfig same_name = Config("one");
  same_name.issuer = "https://two";
  IssuerConfig spoiled = Config("two");
  spoiled.audiences.clear();
  const struct {
    IssuerConfig second;
    const char* says;
  } cases[] = {
      {same_iss, "issuers/1/issuer"}, {same_name, "issuers/1/name"}, {spoiled, "issuers/1/audiences"}};
  for (const auto& c : cases) {
    const auto issuers = JwtAuthenticator::MakeIssuers({Config("one"), c.second});
    ASSERT_FALSE(issuers.ok());
    EXPECT_THAT(std::string(issuers.status().message()), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace plugins::auth
