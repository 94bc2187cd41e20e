#include "gateway/request/parameter_policy.h"

#include <gtest/gtest.h>

#include <array>

namespace gateway {
namespace {

struct Scanned {
  explicit Scanned(std::string_view text) : body(text) {
    const auto error = scanner.Scan(body, router::Api::kChatCompletions, facts);
    EXPECT_FALSE(error) << error->message;
  }
  std::string Refused(const config::Parameters& policy) const {
    const std::array<const config::Parameters*, 1> policies{&policy};
    const auto error = CheckParameters(scanner, body, policies);
    if (error) EXPECT_EQ(error->code, "unsupported_parameter");
    return error ? error->param : "";
  }

  std::string body;
  router::FactsScanner scanner;
  router::BodyFacts facts;
};

TEST(ParameterPolicy, RefusesMembersThatAreDeniedOrNotAllowed) {
  const Scanned body(R"({"model":"m","messages":[],"prior\u0069ty":1,"temperature":0.5})");
  EXPECT_EQ(body.Refused({.deny = {"priority"}}), "priority");
  EXPECT_EQ(body.Refused({.deny = {"chat_template"}}), "");
  EXPECT_EQ(body.Refused({.allow = {{"temperature"}}}), "priority");
  EXPECT_EQ(body.Refused({.allow = {{"temperature", "priority"}}}), "");
  EXPECT_EQ(body.Refused({.allow = {std::vector<std::string>{}}}), "priority");
}

TEST(ParameterPolicy, RefusesToolTypesThatAreNotAllowed) {
  const config::Parameters policy{.tools = {{"function", "custom"}}};
  EXPECT_EQ(Scanned(R"({"model":"m","tools":[{"type":"function","function":{"type":"mcp"}},{"name":"x"}]})")
                .Refused(policy),
            "");
  EXPECT_EQ(Scanned(R"({"model":"m","tools":[{"type":"function"},{"type":"mcp","server_url":"x"}]})")
                .Refused(policy),
            "tools");
  EXPECT_EQ(
      Scanned(R"({"model":"m","tools":[{"type":"function","t\u0079pe":"web_search"}]})").Refused(policy),
      "tools");
  EXPECT_EQ(Scanned(R"({"model":"m","tools":[]})").Refused(policy), "");
  EXPECT_EQ(
      Scanned(R"({"model":"m","tools":[{"type":"web_search_20250305"}]})").Refused({.tools = {{"web_*"}}}),
      "");
}

TEST(ParameterPolicy, RefusesMediaOfOtherHostsInEveryForm) {
  const config::Parameters policy{.media_hosts = {{"cdn.example.com", "*.img.example.com"}}};
  const auto with = [&](std::string_view part) {
    return Scanned(R"({"model":"m","messages":[{"role":"user","content":[)" + std::string(part) + "]}]}")
        .Refused(policy);
  };
  EXPECT_EQ(with(R"({"type":"image_url","image_url":{"url":"https://cdn.example.com/a.png"}})"), "");
  EXPECT_EQ(with(R"({"type":"image_url","image_url":{"url":"HTTPS:\/\/x"}})"), "messages");
  EXPECT_EQ(with(R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}})"), "");
  EXPECT_EQ(with(R"({"type":"image_url","image_url":{"url":"http://169.254.169.254/latest"}})"), "messages");
  EXPECT_EQ(with(R"({"type":"input_image","image_url":"https://evil.example.com/a"})"), "messages");
  EXPECT_EQ(with(R"({"source":{"type":"url","\u0075rl":"https:\/\/evil.example.com"}})"), "messages");
  EXPECT_EQ(with(R"({"text":"see https://evil.example.com"})"), "");
}

TEST(ParameterPolicy, KnowsWhichUrlsEnginesMayFetch) {
  const config::Parameters policy{.media_hosts = {{"cdn.example.com", "[::1]"}}};
  for (const char* url : {"https://cdn.example.com", "http://CDN.example.com:8080/x?y", "https://[::1]/x",
                          "file-abc123", "data:image/png;base64,AAAA", ""})
    EXPECT_TRUE(MayFetch(url, policy)) << url;
  for (const char* url :
       {"https://cdn.example.com@evil.com/", "https://evil.com#cdn.example.com",
        "https://cdn.example.com\\@evil.com", "https://evil.com", "file:///etc/passwd", "file:/etc/passwd",
        "ht\ttps://evil.com", " https://evil.com", "https:evil.com", "https://cdn.example.com:x/",
        "gopher://cdn.example.com", "https://cdn.example.com\n.evil.com", "//evil.com:80/x", "https://"})
    EXPECT_FALSE(MayFetch(url, policy)) << url;
}

TEST(ParameterPolicy, WritesForcedMembersWhereverTheyStand) {
  const config::Parameters root{.force = {{"service_tier", "\"flex\""}, {"temperature", "0"}}};
  const config::Parameters leaf{.force = {{"temperature", "1"}, {"seed", "7"}}};
  const std::array<const config::Parameters*, 2> policies{&root, &leaf};
  const Scanned body(R"({ "model":"m","temperature": 0.9 ,"x":{"seed":1},"temperature":2})");
  EXPECT_EQ(
      *ForceParameters(body.scanner, body.body, body.facts.insert_at, policies),
      R"({"service_tier":"flex","seed":7, "model":"m","temperature": 0 ,"x":{"seed":1},"temperature":0})");
  const config::Parameters none;
  const std::array<const config::Parameters*, 1> nothing{&none};
  EXPECT_FALSE(ForceParameters(body.scanner, body.body, body.facts.insert_at, nothing));
}

}  // namespace
}  // namespace gateway
