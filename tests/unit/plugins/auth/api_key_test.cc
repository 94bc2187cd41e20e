#include "plugins/auth/api_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plugins/auth/credential.h"
#include "plugins/auth/permissions.h"

namespace plugins::auth {
namespace {

using testing::HasSubstr;

TEST(ApiKey, HasItsPublicIdAndAFixedWidthSecret) {
  std::set<std::string> ids;
  std::set<std::string> secrets;
  for (int i = 0; i < 1000; ++i) {
    const NewKey key = GenerateApiKey();
    EXPECT_EQ(key.secret.size(), kApiKeyLength);
    EXPECT_EQ(KeyIdOf(key.secret), key.id);
    EXPECT_TRUE(IsKeyId(key.id));
    ids.insert(key.id);
    secrets.insert(key.secret.substr(kApiKeyPrefix.size() + kKeyIdLength));
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(secrets.size(), 1000u);
}

TEST(ApiKey, EveryCharacterOfTheSecretVaries) {
  std::vector<std::set<char>> seen(kKeySecretLength);
  for (int i = 0; i < 500; ++i) {
    const std::string secret = GenerateApiKey().secret.substr(kApiKeyPrefix.size() + kKeyIdLength + 1);
    for (size_t c = 0; c < secret.size(); ++c) seen[c].insert(secret[c]);
  }
  EXPECT_GE(seen[0].size(), 50u);  // the top digit of a 256-bit number: 62^43 is hardly above 2^256
  for (size_t c = 1; c < seen.size(); ++c) EXPECT_GE(seen[c].size(), 55u) << c;
}

TEST(ApiKey, TextWithoutTheFormOfAKeyHasNoId) {
  const std::string good = GenerateApiKey().secret;
  ASSERT_FALSE(KeyIdOf(good).empty());
  std::string no_dash = good;
  no_dash[kApiKeyPrefix.size() + kKeyIdLength] = 'x';
  std::string bad_id = good;
  bad_id[4] = '/';
  std::string bad_secret = good;
  bad_secret.back() = '\n';
  for (const std::string& bad :
       {std::string(), std::string("tg-"), good + "x", good.substr(0, good.size() - 1), "TG" + good.substr(2),
        no_dash, bad_id, bad_secret}) {
    EXPECT_TRUE(KeyIdOf(bad).empty()) << bad;
  }
}

struct HeaderCase {
  const char* what;
  std::vector<std::pair<const char*, std::string>> headers;
  Credential::State state;
  const char* value;
};

TEST(CredentialReader, TakesOneSecretFromAnyOfTheHeaders) {
  using State = Credential::State;
  const HeaderCase cases[] = {
      {"none", {{"host", "x"}}, State::kMissing, ""},
      {"bearer", {{"Authorization", "Bearer abc"}}, State::kFound, "abc"},
      {"scheme in any case, blanks", {{"authorization", " bEARER   abc "}}, State::kFound, "abc"},
      {"x-api-key", {{"X-Api-Key", "abc"}}, State::kFound, "abc"},
      {"api-key", {{"api-key", "abc"}}, State::kFound, "abc"},
      {"the same twice", {{"api-key", "abc"}, {"Authorization", "Bearer abc"}}, State::kFound, "abc"},
      {"two secrets", {{"x-api-key", "abc"}, {"Authorization", "Bearer abd"}}, State::kConflict, ""},
      {"two of one header", {{"x-api-key", "abc"}, {"x-api-key", "abd"}}, State::kConflict, ""},
      {"conflict stays", {{"x-api-key", "a"}, {"api-key", "b"}, {"api-key", "a"}}, State::kConflict, ""},
      {"basic", {{"Authorization", "Basic YTpi"}}, State::kMalformed, ""},
      {"basic beside a key", {{"Authorization", "Basic YTpi"}, {"api-key", "abc"}}, State::kMalformed, ""},
      {"a key beside basic", {{"api-key", "abc"}, {"Authorization", "Basic YTpi"}}, State::kMalformed, ""},
      {"bearer alone", {{"Authorization", "Bearer"}}, State::kMalformed, ""},
      {"bearer and blanks", {{"Authorization", "Bearer  "}}, State::kMalformed, ""},
      {"scheme run together", {{"Authorization", "Bearerabc"}}, State::kMalformed, ""},
      {"empty", {{"x-api-key", ""}}, State::kMalformed, ""},
      {"two values joined", {{"x-api-key", "abc,abd"}}, State::kMalformed, ""},
      {"inner blank", {{"x-api-key", "abc abd"}}, State::kMalformed, ""},
      {"control character", {{"x-api-key", "abc\x01"}}, State::kMalformed, ""},
      {"not ASCII", {{"x-api-key", "abc\xc3\xa4"}}, State::kMalformed, ""},
      {"too long", {{"x-api-key", std::string(kMaxCredentialBytes + 1, 'a')}}, State::kMalformed, ""},
  };
  for (const HeaderCase& c : cases) {
    SCOPED_TRACE(c.what);
    CredentialReader reader;
    for (const auto& [name, value] : c.headers) reader.Header(name, value);
    EXPECT_EQ(reader.Result().state, c.state);
    EXPECT_EQ(reader.Result().value, c.value);
    EXPECT_EQ(reader.Result().message.empty(), c.state == State::kFound);
    EXPECT_THAT(std::string(reader.Result().message), testing::Not(HasSubstr("abc")));
  }
}

TEST(CredentialReader, TellsKeysFromTokensByTheirShape) {
  EXPECT_EQ(Classify(GenerateApiKey().secret), CredentialKind::kApiKey);
  EXPECT_EQ(Classify("eyJ.e30.AA"), CredentialKind::kJwt);
  EXPECT_EQ(Classify("sk-other"), CredentialKind::kUnrecognised);
  EXPECT_EQ(Classify("a.b.c.d.e"), CredentialKind::kUnrecognised);
}

TEST(Permissions, GlobsMatchWholeNames) {
  struct {
    const char* pattern;
    const char* text;
    bool matches;
  } const cases[] = {
      {"chat-small", "chat-small", true},
      {"chat-small", "chat-smaller", false},
      {"chat-*", "chat-small", true},
      {"chat-*", "chat", false},
      {"*", "", true},
      {"*", "x/y", true},
      {"*-small", "a-small-small", true},
      {"a?c", "abc", true},
      {"a?c", "ac", false},
      {"a*b*c", "a-b-b-c", true},
      {"a*b*c", "a-c-b", false},
      {"", "", true},
      {"", "x", false},
      {"**x", "aax", true},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(GlobMatch(c.pattern, c.text), c.matches) << c.pattern << " ~ " << c.text;
  }
}

TEST(Permissions, EmptyListsFollowTheTenantAndOthersNarrow) {
  EXPECT_TRUE(Permissions{}.AllowsModel("any"));
  EXPECT_TRUE(Permissions{}.AllowsEndpoint("chat"));
  const Permissions narrow{{"chat-*", "embed"}, {"chat"}};
  EXPECT_TRUE(narrow.AllowsModel("chat-small"));
  EXPECT_TRUE(narrow.AllowsModel("embed"));
  EXPECT_FALSE(narrow.AllowsModel("embed2"));
  EXPECT_TRUE(narrow.AllowsEndpoint("chat"));
  EXPECT_FALSE(narrow.AllowsEndpoint("chat/completions"));
}

TEST(Permissions, TenantPathsAreNamesJoinedBySlashes) {
  for (const char* good : {"acme", "acme/search", "a/b/c/d/e/f/g/h", "A-1_b.c"}) {
    EXPECT_TRUE(IsTenantPath(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("/"), std::string("acme/"), std::string("/acme"), std::string("a//b"),
        std::string("../x"), std::string("a/.."), std::string("a b"), std::string("a/b/c/d/e/f/g/h/i"),
        std::string("a\n"), std::string("ä"), std::string(65, 'a')}) {
    EXPECT_FALSE(IsTenantPath(bad)) << bad;
  }
}

}  // namespace
}  // namespace plugins::auth
