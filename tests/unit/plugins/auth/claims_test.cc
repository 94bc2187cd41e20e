#include "plugins/auth/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace plugins::auth {
namespace {

using nlohmann::json;
using testing::ElementsAre;

ClaimMapping ByMap() {
  ClaimMapping m;
  m.tenant_claim = "org_id";
  m.tenants = {{"o1", "acme/search"}, {"o2", "acme/ads"}, {"o3", "acme/search"}};
  m.models_claim = "models";
  m.role_claim = "/realm/roles";
  m.roles = {{"ops", Role::kOperator}, {"root", Role::kAdmin}};
  return m;
}

ClaimMapping ByTemplate(const char* pattern) {
  ClaimMapping m;
  m.tenant_template = pattern;
  return m;
}

TEST(Claims, TenantsComeFromAMapOrATemplate) {
  const struct {
    ClaimMapping mapping;
    const char* claims;
    const char* tenant;  // or the status
    absl::StatusCode code = absl::StatusCode::kOk;
  } cases[] = {
      {ByMap(), R"({"org_id":"o1"})", "acme/search"},
      {ByMap(), R"({"org_id":["x","o2"]})", "acme/ads"},
      {ByMap(), R"({"org_id":["o1","o3"]})", "acme/search"},
      {ByMap(), R"({"org_id":["o1","o2"]})", "", absl::StatusCode::kInvalidArgument},
      {ByMap(), R"({"org_id":"O1"})", "", absl::StatusCode::kNotFound},
      {ByMap(), R"({"org_id":"acme/search"})", "", absl::StatusCode::kNotFound},
      {ByMap(), R"({"org_id":[]})", "", absl::StatusCode::kNotFound},
      {ByMap(), R"({"org_id":1})", "", absl::StatusCode::kInvalidArgument},
      {ByMap(), R"({"org_id":["o1",1]})", "", absl::StatusCode::kInvalidArgument},
      {ByMap(), R"({})", "", absl::StatusCode::kNotFound},
      {ByTemplate("acme/{team}"), R"({"team":"search"})", "acme/search"},
      {ByTemplate("{/org/name}/{team}"), R"({"org":{"name":"acme"},"team":"ads"})", "acme/ads"},
      {ByTemplate("acme/t-{team}"), R"({"team":"ads"})", "acme/t-ads"},
      {ByTemplate("{https:~1~1x}"), R"({"https:~1~1x":"acme"})", "acme"},
      {ByTemplate("{/https:~1~1x~0y}"), R"({"https://x~y":"acme"})", "acme"},
      {ByTemplate("acme"), R"({})", "acme"},
      {ByTemplate("acme/{team}"), R"({"team":"search/../ads"})", "", absl::StatusCode::kInvalidArgument},
      {ByTemplate("acme/{team}"), R"({"team":".."})", "", absl::StatusCode::kInvalidArgument},
      {ByTemplate("acme/{team}"), R"({"team":""})", "", absl::StatusCode::kInvalidArgument},
      {ByTemplate("acme/{team}"), R"({"team":["search"]})", "", absl::StatusCode::kInvalidArgument},
      {ByTemplate("acme/{team}"), R"({})", "", absl::StatusCode::kNotFound},
      {ByTemplate("{/a/b}"), R"({"a":["b"]})", "", absl::StatusCode::kNotFound},
      {ByTemplate("{/a/b}"), R"({"a":"b"})", "", absl::StatusCode::kNotFound},
  };
  for (const auto& c : cases) {
    ASSERT_TRUE(CheckMapping(c.mapping).ok()) << CheckMapping(c.mapping);
    const auto mapped = MapClaims(json::parse(c.claims), c.mapping);
    EXPECT_EQ(mapped.status().code(), c.code) << c.claims << mapped.status();
    if (mapped.ok()) EXPECT_EQ(mapped->tenant, c.tenant) << c.claims;
  }
}

TEST(Claims, ModelsNarrowAndAnEmptyListDoesNotWiden) {
  const auto models = [](const char* claim) {
    json claims = {{"org_id", "o1"}};
    claims["models"] = json::parse(claim);
    const auto mapped = MapClaims(claims, ByMap());
    return mapped.ok() ? mapped->permissions.models : std::vector<std::string>{"refused"};
  };
  EXPECT_THAT(models(R"(["chat-*","embed"])"), ElementsAre("chat-*", "embed"));
  EXPECT_THAT(models(R"("chat-*  embed ")"), ElementsAre("chat-*", "embed"));
  for (const char* refused : {"[]", "\"\"", "\" \"", "null", "1", "{}", "[1]", "[[\"a\"]]"}) {
    EXPECT_THAT(models(refused), ElementsAre("refused")) << refused;
  }
  EXPECT_THAT(models(json(std::vector<std::string>(257, "m")).dump().c_str()), ElementsAre("refused"));
  EXPECT_THAT(models(json(std::string(257, 'm')).dump().c_str()), ElementsAre("refused"));
  EXPECT_TRUE(MapClaims(json{{"org_id", "o1"}}, ByMap())->permissions.models.empty());
}

TEST(Claims, RolesComeFromTheMapOnlyAndTheHighestCounts) {
  const auto role = [](const json& roles) {
    return MapClaims(json{{"org_id", "o1"}, {"realm", {{"roles", roles}}}}, ByMap())->role;
  };
  EXPECT_EQ(role("ops"), Role::kOperator);
  EXPECT_EQ(role({"root", "ops"}), Role::kAdmin);
  EXPECT_EQ(role("admin"), Role::kNone);
  EXPECT_EQ(role(json::array()), Role::kNone);
  EXPECT_EQ(MapClaims(json{{"org_id", "o1"}, {"realm", "root"}}, ByMap())->role, Role::kNone);
}

TEST(Claims, AnAdministratorNeedsNoTenant) {
  const auto mapped = MapClaims(json{{"realm", {{"roles", "root"}}}}, ByMap());
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->tenant, "");
  EXPECT_EQ(mapped->role, Role::kAdmin);
  EXPECT_FALSE(MapClaims(json{{"org_id", {"o1", "o2"}}, {"realm", {{"roles", "root"}}}}, ByMap()).ok())
      << "an ambiguous tenant is not the same as none";
}

TEST(Claims, MappingsThatMakeNoSenseAreRefused) {
  const struct {
    const char* what;
    void (*spoil)(ClaimMapping&);
  } cases[] = {
      {"neither", [](ClaimMapping& m) { m = {}; }},
      {"both", [](ClaimMapping& m) { m.tenant_template = "acme"; }},
      {"claim without map", [](ClaimMapping& m) { m.tenants.clear(); }},
      {"claim beside template", [](ClaimMapping& m) { m.tenants.clear(), m.tenant_template = "acme"; }},
      {"map without claim", [](ClaimMapping& m) { m.tenant_claim.clear(); }},
      {"tenant", [](ClaimMapping& m) { m.tenants["x"] = "a//b"; }},
      {"open brace", [](ClaimMapping& m) { m = ByTemplate("acme/{team"); }},
      {"close brace", [](ClaimMapping& m) { m = ByTemplate("acme/team}"); }},
      {"empty braces", [](ClaimMapping& m) { m = ByTemplate("acme/{}"); }},
      {"nested braces", [](ClaimMapping& m) { m = ByTemplate("acme/{{team}}"); }},
      {"no path", [](ClaimMapping& m) { m = ByTemplate("acme//{team}"); }},
      {"role without map", [](ClaimMapping& m) { m.roles.clear(); }},
      {"roles without claim", [](ClaimMapping& m) { m.role_claim.clear(); }},
  };
  for (const auto& c : cases) {
    ClaimMapping mapping = ByMap();
    ASSERT_TRUE(CheckMapping(mapping).ok());
    c.spoil(mapping);
    EXPECT_FALSE(CheckMapping(mapping).ok()) << c.what;
  }
}

TEST(Claims, SubjectsGetDistinctBoundedKeyIds) {
  EXPECT_EQ(SubjectKeyId("okta", "auth0|42"), "jwt:okta:auth0|42");
  EXPECT_EQ(SubjectKeyId("k8s", "system:serviceaccount:ns:x"), "jwt:k8s:system:serviceaccount:ns:x");
  std::set<std::string> ids;
  for (const std::string& subject :
       {std::string("a"), std::string("a b"), std::string("a\n"), std::string(64, 'x'), std::string(65, 'x'),
        std::string(66, 'x'), std::string("#a"), SubjectKeyId("okta", "a b").substr(9)}) {
    const std::string id = SubjectKeyId("okta", subject);
    EXPECT_LE(id.size(), 101u);
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_EQ(id.find_first_of(" \n"), std::string::npos);
  }
  EXPECT_NE(SubjectKeyId("a", "s"), SubjectKeyId("b", "s"));
}

}  // namespace
}  // namespace plugins::auth
