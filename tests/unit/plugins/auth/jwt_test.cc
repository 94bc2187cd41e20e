#include "plugins/auth/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugins/auth/signer.h"

namespace plugins::auth {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");
const int64_t kNowSeconds = conf::ToUnixMicros(kNow) / 1'000'000;

IssuerConfig Config() {
  IssuerConfig c;
  c.name = "okta";
  c.issuer = "https://login.example.com";
  c.audiences = {"tidegate", "models"};
  for (const JwsAlgorithm& a : kJwsAlgorithms) c.algorithms.emplace_back(a.name);
  c.leeway = 60s;
  c.claims.tenant_template = "acme/{team}";
  return c;
}

json Header(const char* algorithm) {
  return {{"alg", algorithm}, {"kid", algorithm}};
}

json Claims() {
  return {{"iss", "https://login.example.com"}, {"aud", "tidegate"},       {"sub", "user-1"},
          {"exp", kNowSeconds + 300},           {"iat", kNowSeconds - 10}, {"team", "search"}};
}

// One key for each algorithm, named after it.
const JwkSet& Keys() {
  static const JwkSet keys = [] {
    json list = json::array();
    for (const JwsAlgorithm& a : kJwsAlgorithms) {
      json jwk = Signer::For(a.name).PublicJwk(std::string(a.name));
      jwk["alg"] = a.name;
      jwk["use"] = "sig";
      list.push_back(jwk);
    }
    return *JwkSet::Parse(json{{"keys", list}}.dump());
  }();
  return keys;
}

JwtResult Verify(const std::string& token, const IssuerConfig& config = Config(),
                 conf::TimePoint now = kNow) {
  const auto verifier = JwtVerifier::Make(config);
  EXPECT_TRUE(verifier.ok()) << verifier.status();
  JwtResult result = verifier->Verify(token, Keys(), now);
  EXPECT_EQ(result.ok(), result.identity != nullptr);
  EXPECT_EQ(result.ok(), result.message.empty());
  return result;
}

std::string Name(const JwtResult& r) {
  return std::string(RefusalName(r.refusal));
}

std::string Token(const json& header, const json& claims) {
  return SignToken(Signer::For("ES256"), "ES256", header.dump(), claims.dump());
}

TEST(Jwt, EveryAcceptedAlgorithmGivesTheIdentity) {
  for (const JwsAlgorithm& a : kJwsAlgorithms) {
    SCOPED_TRACE(a.name);
    const std::string token =
        SignToken(Signer::For(a.name), a.name, Header(std::string(a.name).c_str()).dump(), Claims().dump());
    const JwtResult result = Verify(token);
    ASSERT_TRUE(result.ok()) << result.message;
    EXPECT_EQ(result.identity->tenant, "acme/search");
    EXPECT_EQ(result.identity->key_id, "jwt:okta:user-1");
    EXPECT_EQ(result.identity->issuer, "okta");
    EXPECT_EQ(result.identity->role, Role::kNone);
    EXPECT_EQ(result.identity->valid_until, kNow + 300s + 60s);
  }
}

TEST(Jwt, AnAlgorithmThatTheIssuerDoesNotUseIsRefused) {
  IssuerConfig config = Config();
  config.algorithms = {"ES256"};
  const std::string token = SignToken(Signer::For("RS256"), "RS256", Header("RS256").dump(), Claims().dump());
  EXPECT_TRUE(Verify(token).ok());
  EXPECT_EQ(Name(Verify(token, config)), "algorithm");
}

TEST(Jwt, NoneIsRefusedInEverySpelling) {
  for (const char* none : {"none", "None", "NONE", "nOnE", ""}) {
    for (const char* signature : {"", "AAAA"}) {
      const std::string token = EncodeBase64Url(json{{"alg", none}}.dump()) + "." +
                                EncodeBase64Url(Claims().dump()) + "." + signature;
      EXPECT_EQ(Name(Verify(token)), "algorithm") << none;
    }
  }
}

// An HMAC keyed with the public key, which everyone knows: the classic confusion.
TEST(Jwt, AnHmacOverThePublicKeyIsRefused) {
  for (const std::string& secret :
       {Signer::For("RS256").PublicJwk("RS256")["n"].get<std::string>(),
        *DecodeBase64Url(Signer::For("RS256").PublicJwk("RS256")["n"].get<std::string>()),
        Signer::For("RS256").PublicJwk("RS256").dump()}) {
    const json header = {{"alg", "HS256"}, {"kid", "RS256"}};
    const std::string text = EncodeBase64Url(header.dump()) + "." + EncodeBase64Url(Claims().dump());
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
    const std::string token =
        text + "." + EncodeBase64Url(std::string_view(reinterpret_cast<const char*>(mac), size));
    EXPECT_EQ(Name(Verify(token)), "algorithm");
  }
}

struct HeaderCase {
  const char* what;
  void (*change)(json&);
  const char* refusal;
};

TEST(Jwt, HeadersThatDoNotFitAreRefused) {
  const HeaderCase cases[] = {
      {"as it should be", [](json&) {}, "none"},
      {"no kid, one key fits", [](json& h) { h.erase("kid"); }, "none"},
      {"unknown members pass", [](json& h) { h["x"] = 1; }, "none"},
      {"jku is not followed", [](json& h) { h["jku"] = "https://evil.example"; }, "none"},
      {"crit", [](json& h) { h["crit"] = {"exp"}; }, "critical_header"},
      {"crit empty", [](json& h) { h["crit"] = json::array(); }, "critical_header"},
      {"crit null", [](json& h) { h["crit"] = nullptr; }, "critical_header"},
      {"alg missing", [](json& h) { h.erase("alg"); }, "algorithm"},
      {"alg no text", [](json& h) { h["alg"] = 256; }, "algorithm"},
      {"alg in a list", [](json& h) { h["alg"] = {"ES256"}; }, "algorithm"},
      {"alg lower case", [](json& h) { h["alg"] = "es256"; }, "algorithm"},
      {"kid unknown", [](json& h) { h["kid"] = "other"; }, "unknown_key"},
      {"kid no text", [](json& h) { h["kid"] = 1; }, "malformed"},
      {"kid empty", [](json& h) { h["kid"] = ""; }, "malformed"},
      {"kid of another kind", [](json& h) { h["kid"] = "RS256"; }, "key_mismatch"},
      {"kid of another curve", [](json& h) { h["kid"] = "ES384"; }, "key_mismatch"},
      {"alg of another kind", [](json& h) { h["alg"] = "RS256"; }, "key_mismatch"},
      {"another key and alg", [](json& h) { h["alg"] = h["kid"] = "RS256"; }, "signature"},
  };
  for (const HeaderCase& c : cases) {
    json header = Header("ES256");
    c.change(header);
    const JwtResult result = Verify(Token(header, Claims()));
    EXPECT_EQ(Name(result), c.refusal) << c.what << ": " << result.message;
  }
}

TEST(Jwt, AKeyInTheHeaderIsNotUsed) {
  const Signer mine = Signer::Ec("P-256");
  for (const char* kid : {"ES256", "mine"}) {
    json header = {{"alg", "ES256"}, {"kid", kid}, {"jwk", mine.PublicJwk(kid)}};
    EXPECT_FALSE(Verify(SignToken(mine, "ES256", header.dump(), Claims().dump())).ok());
  }
}

TEST(Jwt, SeveralKeysWithoutAKidAreNotTried) {
  const json list = {Signer::For("ES256").PublicJwk("a"), Signer::Ec("P-256").PublicJwk("b")};
  const JwkSet keys = *JwkSet::Parse(json{{"keys", list}}.dump());
  const std::string token = Token({{"alg", "ES256"}}, Claims());
  EXPECT_EQ(Name(JwtVerifier::Make(Config())->Verify(token, keys, kNow)), "key_mismatch");
}

TEST(Jwt, TheTypeIsCheckedWhereItIsConfigured) {
  const struct {
    json type;
    bool accepted;
  } cases[] = {
      {"at+jwt", true},
      {"AT+JWT", true},
      {"application/at+jwt", true},
      {"Application/At+Jwt", true},
      {"JWT", false},
      {"at+jwt;x", false},
      {"", false},
      {1, false},
      {nullptr, false},
      {"text/at+jwt", false},
  };
  IssuerConfig config = Config();
  config.types = {"at+jwt"};
  for (const auto& c : cases) {
    json header = Header("ES256");
    header["typ"] = c.type;
    EXPECT_TRUE(Verify(Token(header, Claims())).ok()) << c.type;
    EXPECT_EQ(Name(Verify(Token(header, Claims()), config)), c.accepted ? "none" : "type") << c.type;
  }
  EXPECT_EQ(Name(Verify(Token(Header("ES256"), Claims()), config)), "type");
}

struct ClaimCase {
  const char* what;
  void (*change)(json&);
  const char* refusal;
};

TEST(Jwt, ClaimsThatDoNotFitAreRefused) {
  const ClaimCase cases[] = {
      {"as they should be", [](json&) {}, "none"},
      {"aud as a list", [](json& c) { c["aud"] = {"other", "models"}; }, "none"},
      {"iss missing", [](json& c) { c.erase("iss"); }, "issuer"},
      {"iss of another", [](json& c) { c["iss"] = "https://login.example.org"; }, "issuer"},
      {"iss with a slash", [](json& c) { c["iss"] = "https://login.example.com/"; }, "issuer"},
      {"iss in a list", [](json& c) { c["iss"] = json::array({c["iss"]}); }, "issuer"},
      {"aud missing", [](json& c) { c.erase("aud"); }, "audience"},
      {"aud of another", [](json& c) { c["aud"] = "other"; }, "audience"},
      {"aud in another case", [](json& c) { c["aud"] = "Tidegate"; }, "audience"},
      {"aud empty list", [](json& c) { c["aud"] = json::array(); }, "audience"},
      {"aud list with a number", [](json& c) { c["aud"] = {"tidegate", 1}; }, "audience"},
      {"aud object", [](json& c) { c["aud"] = {{"tidegate", 1}}; }, "audience"},
      {"exp missing", [](json& c) { c.erase("exp"); }, "claim"},
      {"exp text", [](json& c) { c["exp"] = "4102444800"; }, "claim"},
      {"exp null", [](json& c) { c["exp"] = nullptr; }, "claim"},
      {"exp true", [](json& c) { c["exp"] = true; }, "claim"},
      {"exp past", [](json& c) { c["exp"] = 0; }, "expired"},
      {"exp negative", [](json& c) { c["exp"] = -1e300; }, "expired"},
      {"exp far off", [](json& c) { c["exp"] = 1e300; }, "none"},
      {"exp far off, whole", [](json& c) { c["exp"] = UINT64_MAX; }, "none"},
      {"nbf text", [](json& c) { c["nbf"] = "0"; }, "claim"},
      {"nbf far off", [](json& c) { c["nbf"] = 1e300; }, "not_yet_valid"},
      {"iat text", [](json& c) { c["iat"] = "0"; }, "claim"},
      {"iat far off", [](json& c) { c["iat"] = 1e300; }, "issued_later"},
      {"iat missing", [](json& c) { c.erase("iat"); }, "none"},
      {"sub missing", [](json& c) { c.erase("sub"); }, "claim"},
      {"sub empty", [](json& c) { c["sub"] = ""; }, "claim"},
      {"sub number", [](json& c) { c["sub"] = 1; }, "claim"},
      {"sub huge", [](json& c) { c["sub"] = std::string(1025, 's'); }, "claim"},
      {"team missing", [](json& c) { c.erase("team"); }, "no_tenant"},
      {"team climbs", [](json& c) { c["team"] = "../root"; }, "claim"},
  };
  for (const ClaimCase& c : cases) {
    json claims = Claims();
    c.change(claims);
    const JwtResult result = Verify(Token(Header("ES256"), claims));
    EXPECT_EQ(Name(result), c.refusal) << c.what << ": " << result.message;
  }
}

TEST(Jwt, TimesHoldToTheNanosecondWithLeeway) {
  const struct {
    const char* claim;
    double seconds;         // of the claim, from kNow
    conf::Duration offset;  // of the clock, from kNow
    const char* refusal;
  } cases[] = {
      {"exp", 10, 70s - 1ns, "none"},     {"exp", 10, 70s, "expired"},
      {"nbf", 100, 40s, "none"},          {"nbf", 100, 40s - 1ns, "not_yet_valid"},
      {"iat", 100, 40s, "none"},          {"iat", 100, 40s - 1ns, "issued_later"},
      {"exp", 10.5, 70s + 499ms, "none"}, {"exp", 10.5, 70s + 501ms, "expired"},
  };
  for (const auto& c : cases) {
    json claims = Claims();
    claims.erase("iat");
    claims[c.claim] = static_cast<double>(kNowSeconds) + c.seconds;
    EXPECT_EQ(Name(Verify(Token(Header("ES256"), claims), Config(), kNow + c.offset)), c.refusal)
        << c.claim << " at " << c.offset.count();
  }
  IssuerConfig strict = Config();
  strict.leeway = 0s;
  const std::string token = Token(Header("ES256"), Claims());
  EXPECT_TRUE(Verify(token, strict, kNow + 300s - 1ns).ok());
  EXPECT_EQ(Name(Verify(token, strict, kNow + 300s)), "expired");
}

TEST(Jwt, RepeatedMembersAreRefused) {
  const std::string header = Header("ES256").dump();
  const std::string claims = Claims().dump();
  const auto sign = [](const std::string& h, const std::string& c) {
    return SignToken(Signer::For("ES256"), "ES256", h, c);
  };
  EXPECT_EQ(Name(Verify(sign(R"({"alg":"none",)" + header.substr(1), claims))), "repeated_member");
  EXPECT_EQ(Name(Verify(sign(header, R"({"team":"ads",)" + claims.substr(1)))), "repeated_member");
  EXPECT_EQ(Name(Verify(sign(header, R"({"x":{"a":1,"a":1},)" + claims.substr(1)))), "repeated_member");
  EXPECT_EQ(Name(Verify(sign(header, R"({"te\u0061m":"ads",)" + claims.substr(1)))), "repeated_member");
}

TEST(Jwt, TextsThatAreNoTokenAreRefused) {
  const std::string good = Token(Header("ES256"), Claims());
  const size_t dot = good.find('.');
  const auto sign = [](const std::string& h, const std::string& c) {
    return SignToken(Signer::For("ES256"), "ES256", h, c);
  };
  const struct {
    const char* what;
    std::string token;
    const char* refusal;
  } cases[] = {
      {"nothing", "", "malformed"},
      {"dots", "..", "malformed"},
      {"two parts", good.substr(0, good.rfind('.')), "malformed"},
      {"four parts", good + ".", "malformed"},
      {"five parts", "a.b.c.d.e", "malformed"},
      {"padding", good.substr(0, dot) + "=" + good.substr(dot), "malformed"},
      {"white space", " " + good, "malformed"},
      {"newline at the end", good + "\n", "malformed"},
      {"plus sign", good.substr(0, good.size() - 2) + "++", "malformed"},
      {"no signature", good.substr(0, good.rfind('.') + 1), "signature"},
      {"header is a list", sign("[]", Claims().dump()), "malformed"},
      {"header is no JSON", sign("{'alg':1}", Claims().dump()), "malformed"},
      {"claims are text", sign(Header("ES256").dump(), "\"x\""), "malformed"},
      {"claims are followed", sign(Header("ES256").dump(), Claims().dump() + "x"), "malformed"},
      {"claims are not UTF-8", sign(Header("ES256").dump(), "{\"a\":\"\xff\"}"), "malformed"},
      {"claims hold NaN", sign(Header("ES256").dump(), "{\"exp\":NaN}"), "malformed"},
      {"claims overflow", sign(Header("ES256").dump(), "{\"exp\":1e999}"), "malformed"},
      {"deep", sign(Header("ES256").dump(), "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}"),
       "malformed"},
      {"too large", std::string(kMaxTokenBytes + 1, 'a'), "too_large"},
  };
  for (const auto& c : cases) EXPECT_EQ(Name(Verify(c.token)), c.refusal) << c.what;
}

TEST(Jwt, AnyChangedCharacterIsRefused) {
  const std::string good = Token(Header("ES256"), Claims());
  ASSERT_TRUE(Verify(good).ok());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(Verify(changed).ok()) << i;
  }
}

TEST(Jwt, RefusalsDoNotRepeatTheToken) {
  json claims = Claims();
  claims["exp"] = 1;
  claims["team"] = "canary-value";
  const std::string expired = Token(Header("ES256"), claims);
  for (const std::string& token : {expired, expired + "x", Token({{"alg", "canary-value"}}, claims)}) {
    const std::string message = Verify(token).message;
    EXPECT_THAT(message, Not(HasSubstr("canary-value")));
    EXPECT_THAT(message, Not(HasSubstr(token.substr(0, 20))));
  }
}

TEST(Jwt, ConfigurationsThatMakeNoSenseAreRefused) {
  const struct {
    const char* field;
    void (*spoil)(IssuerConfig&);
  } cases[] = {
      {"name", [](IssuerConfig& c) { c.name = ""; }},
      {"name", [](IssuerConfig& c) { c.name = "a:b"; }},
      {"issuer", [](IssuerConfig& c) { c.issuer = ""; }},
      {"audiences", [](IssuerConfig& c) { c.audiences.clear(); }},
      {"audiences", [](IssuerConfig& c) { c.audiences = {""}; }},
      {"algorithms", [](IssuerConfig& c) { c.algorithms.clear(); }},
      {"algorithms", [](IssuerConfig& c) { c.algorithms = {"HS256"}; }},
      {"algorithms", [](IssuerConfig& c) { c.algorithms = {"none"}; }},
      {"leeway", [](IssuerConfig& c) { c.leeway = -1s; }},
      {"leeway", [](IssuerConfig& c) { c.leeway = 301s; }},
      {"claims", [](IssuerConfig& c) { c.claims.tenant_template.clear(); }},
  };
  for (const auto& c : cases) {
    IssuerConfig config = Config();
    c.spoil(config);
    const auto verifier = JwtVerifier::Make(config);
    ASSERT_FALSE(verifier.ok()) << c.field;
    EXPECT_THAT(std::string(verifier.status().message()), testing::StartsWith(c.field));
  }
}

}  // namespace
}  // namespace plugins::auth
