#include "gateway/people/oidc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using gateway::Person;
using gateway::RoleOver;
using gateway::config::Provider;
using gateway::oidc::Discovery;
using gateway::oidc::Proofs;
using nlohmann::json;
using plugins::auth::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Provider Corp() {
  Provider provider;
  provider.name = "corp";
  provider.issuer = {"https", "login.example.com", 443, "/realms/x"};
  provider.client_id = "tide gate";
  provider.client_secret = conf::Secret("env:X", "s:e/cret");
  const auto rule = [&](const char* claim, const char* value, Role role, const char* tenant) {
    gateway::config::RoleRule& made = provider.roles.emplace_back();
    made.claim = claim;
    made.value = value;
    made.role = role;
    made.tenant = tenant;
  };
  rule("groups", "platform", Role::kOperator, "");
  rule("groups", "search", Role::kLead, "search");
  rule("/realm/roles", "dev", Role::kMember, "search");
  return provider;
}

json Document() {
  return {{"issuer", "https://login.example.com/realms/x/"},
          {"authorization_endpoint", "https://login.example.com/auth?kind=a"},
          {"token_endpoint", "https://login.example.com/token"},
          {"jwks_uri", "https://login.example.com/keys"},
          {"end_session_endpoint", "https://login.example.com/logout"}};
}

Discovery Known() {
  auto discovery = gateway::oidc::ReadDiscovery(Document().dump(), Corp());
  EXPECT_TRUE(discovery.ok()) << discovery.status();
  return *discovery;
}

std::string SameTenant(const std::string& tenant) {
  return "acme/" + tenant;
}

TEST(Oidc, AProviderMustBeWhoItIsTakenForAndSpeakHttps) {
  EXPECT_EQ(Known().issuer, "https://login.example.com/realms/x/");
  const auto refused = [](const char* name, const json& value) {
    json document = Document();
    document[name] = value;
    return std::string(gateway::oidc::ReadDiscovery(document.dump(), Corp()).status().message());
  };
  EXPECT_THAT(refused("issuer", "https://evil.example.com"), HasSubstr("calls itself"));
  EXPECT_THAT(refused("token_endpoint", "http://login.example.com/token"), HasSubstr("not an https address"));
  EXPECT_THAT(refused("jwks_uri", nullptr), HasSubstr("jwks_uri is missing"));
  EXPECT_THAT(refused("authorization_endpoint", 7), HasSubstr("authorization_endpoint is missing"));
  EXPECT_FALSE(gateway::oidc::ReadDiscovery("<html>", Corp()).ok());
}

TEST(Oidc, TheBrowserIsSentWithStateNonceAndChallenge) {
  const Proofs proofs("a-secret");
  const std::string url =
      gateway::oidc::AuthorizationUrl(Known(), Corp(), "https://t.example.com/cb", proofs);
  EXPECT_THAT(url, testing::StartsWith(
                       "https://login.example.com/auth?kind=a&response_type=code&client_id=tide%20gate&"
                       "redirect_uri=https%3A%2F%2Ft.example.com%2Fcb&scope=openid%20profile%20email&"));
  EXPECT_THAT(url, HasSubstr("state=" + proofs.state));
  EXPECT_THAT(url, HasSubstr("code_challenge=" + proofs.challenge + "&code_challenge_method=S256"));
  EXPECT_THAT(url, Not(HasSubstr(proofs.verifier)));
  EXPECT_EQ(proofs.challenge.size(), 43u);
  EXPECT_NE(proofs.state, proofs.nonce);
  EXPECT_NE(Proofs("b-secret").state, proofs.state);
}

TEST(Oidc, TheSecretStandsWhereTheProviderWantsIt) {
  const Proofs proofs("a");
  auto call = gateway::oidc::TokenCallOf(Known(), Corp(), "https://t/cb", "c/1", proofs);
  EXPECT_EQ(call.authorization, "Basic dGlkZSUyMGdhdGU6cyUzQWUlMkZjcmV0");
  EXPECT_THAT(call.body, HasSubstr("code=c%2F1&"));
  EXPECT_THAT(call.body, HasSubstr("code_verifier=" + proofs.verifier));
  EXPECT_THAT(call.body, Not(HasSubstr("client_secret")));
  json document = Document();
  document["token_endpoint_auth_methods_supported"] = {"client_secret_post"};
  const auto other = gateway::oidc::ReadDiscovery(document.dump(), Corp());
  call = gateway::oidc::TokenCallOf(*other, Corp(), "https://t/cb", "c", proofs);
  EXPECT_EQ(call.authorization, "");
  EXPECT_THAT(call.body, HasSubstr("client_id=tide%20gate&client_secret=s%3Ae%2Fcret"));
}

TEST(Oidc, AnErrorOfTheProviderIsReportedWithItsCode) {
  const auto refused =
      gateway::oidc::ReadTokens(400, R"({"error":"invalid_grant\n","error_description":"x"})");
  EXPECT_EQ(std::string(refused.status().message()),
            "the provider gave no token: it answered 400, invalid_grant");
  EXPECT_FALSE(gateway::oidc::ReadTokens(200, R"({"access_token":"a"})").ok());
  EXPECT_EQ(gateway::oidc::ReadTokens(200, R"({"id_token":"t","access_token":"a"})")->access_token, "a");
}

TEST(Oidc, ATokenOfAnotherAttemptOrClientIsRefused) {
  const Proofs proofs("a");
  const auto check = [&](const json& claims) { return gateway::oidc::CheckClaims(claims, Corp(), proofs); };
  EXPECT_TRUE(check({{"nonce", proofs.nonce}, {"aud", "tide gate"}}).ok());
  EXPECT_FALSE(check({{"nonce", Proofs("b").nonce}}).ok());
  EXPECT_FALSE(check({{"aud", "tide gate"}}).ok());
  EXPECT_FALSE(check({{"nonce", proofs.nonce}, {"aud", {"tide gate", "other"}}}).ok());
  EXPECT_FALSE(check({{"nonce", proofs.nonce}, {"azp", "other"}}).ok());
}

TEST(Oidc, RulesGiveRolesAndWithoutAnyThePersonIsRefused) {
  const json claims = {{"sub", "ada"},
                       {"name", "Ada\n L"},
                       {"email", "a@x"},
                       {"groups", {"search", "platform"}},
                       {"realm", {{"roles", "dev"}}}};
  const auto person = gateway::oidc::PersonOf(claims, Corp(), SameTenant);
  ASSERT_TRUE(person.ok());
  EXPECT_EQ(person->id, "person:corp:ada");
  EXPECT_EQ(person->name, "Ada L");
  EXPECT_THAT(person->roles, ElementsAre(RoleOver{Role::kOperator, ""}, RoleOver{Role::kLead, "acme/search"},
                                         RoleOver{Role::kMember, "acme/search"}));
  const auto stranger = gateway::oidc::PersonOf({{"sub", "eve"}, {"groups", "none"}}, Corp(), SameTenant);
  EXPECT_TRUE(absl::IsPermissionDenied(stranger.status()));
}

TEST(Oidc, UserInfoAddsWhatTheTokenDoesNotSayAndNothingOfSomebodyElse) {
  json claims = {{"sub", "ada"}, {"name", "Ada"}};
  EXPECT_EQ(gateway::oidc::LackOf(claims, Corp()), gateway::oidc::Lack::kRoles);
  ASSERT_TRUE(gateway::oidc::AddUserInfo(R"({"sub":"ada","name":"Eve","groups":["search"]})", claims).ok());
  EXPECT_EQ(claims["name"], "Ada");
  EXPECT_EQ(claims["groups"], json({"search"}));
  EXPECT_FALSE(gateway::oidc::AddUserInfo(R"({"sub":"eve","groups":["platform"]})", claims).ok());
}

TEST(Oidc, TheProvidersSessionEndsWhereItCan) {
  const auto url = gateway::oidc::EndSessionUrl(Known(), Corp(), "a.b.c", "https://t/sign-in");
  ASSERT_TRUE(url);
  EXPECT_THAT(*url, HasSubstr("post_logout_redirect_uri=https%3A%2F%2Ft%2Fsign-in&id_token_hint=a.b.c"));
  json document = Document();
  document.erase("end_session_endpoint");
  EXPECT_FALSE(
      gateway::oidc::EndSessionUrl(*gateway::oidc::ReadDiscovery(document.dump(), Corp()), Corp(), "", ""));
}

}  // namespace
