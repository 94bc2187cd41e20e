#include "gateway/config/weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/problem.h"
#include "gateway/config/model_policy.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::config {
namespace {

using testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

std::string PolicyWith(const std::string& weights,
                       const std::string& command = "[vllm, serve, \"{weights}\"]") {
  return fmt::format(
      "model: chat\nreplicas: {{max: 2}}\nscaling: {{policy: demand}}\n{}"
      "replica: {{engine: vllm, command: {}}}\n",
      weights.empty() ? "" : fmt::format("weights: {{{}}}\n", weights), command);
}

std::string FirstWeightsProblem(const std::string& text) {
  const auto loaded = ReadUnopenedPolicy(text, "chat.yaml");
  return loaded.problems.empty() ? std::string() : ToString(loaded.problems.front());
}

TEST(WeightsPolicy, EachSourceIsRead) {
  const auto source = [](const std::string& given) {
    const auto loaded = ReadUnopenedPolicy(PolicyWith(given + ", digest: \"" + kDigest + "\""), "chat.yaml");
    EXPECT_TRUE(loaded.value) << given << ": "
                              << (loaded.problems.empty() ? "" : ToString(loaded.problems[0]));
    return loaded.value ? plugins::weights::InWords(SourceOf(*loaded.value->weights)) : std::string();
  };
  EXPECT_EQ(source("huggingface: {repository: org/m, revision: main}"),
            "https://huggingface.co/org/m at main");
  EXPECT_EQ(source("huggingface: {url: \"http://mirror:8080/hub/\", repository: org/m, revision: v1}"),
            "http://mirror:8080/hub/org/m at v1");
  EXPECT_EQ(source("oci: {registry: \"https://reg\", repository: org/m}"), "https://reg/org/m");
  EXPECT_EQ(source("s3: {endpoint: \"https://s3\", bucket: b, prefix: m}"), "https://s3/b/m");
  EXPECT_EQ(source("http: {url: \"https://h/m.gguf\"}"), "https://h/m.gguf");
  EXPECT_EQ(source("path: /mnt/m"), "/mnt/m");
}

TEST(WeightsPolicy, SaysWhatIsWrong) {
  const std::string digest = "digest: \"" + kDigest + "\"";
  const struct {
    std::string policy;
    std::string why;
  } kCases[] = {
      {PolicyWith("path: /m"), "digest"},
      {PolicyWith("path: /m, digest: \"sha256:1\""), "must be sha256: and 64 lower-case hex digits"},
      {PolicyWith(digest), "names no source"},
      {PolicyWith("path: /m, http: {url: \"http://h/m\"}, " + digest), "names several sources"},
      {PolicyWith("path: m, " + digest), "must be an absolute path"},
      {PolicyWith("http: {url: \"redis://h/m\"}, " + digest), "http"},
      {PolicyWith("huggingface: {repository: ../m, revision: main}, " + digest),
       "must be a name such as org/model"},
      {PolicyWith("s3: {endpoint: \"http://s\", bucket: b, access_key: env:A}, " + digest),
       "access_key and secret_key belong together"},
      {PolicyWith("path: /m, prefetch: {nodes: 2}, " + digest), "does not say when"},
      {PolicyWith("path: /m, compile_cache: {}, " + digest), "needs the engine's version"},
      {PolicyWith("path: /m, " + digest, "[vllm, serve, m]"), "are used by no command"},
      {PolicyWith("", "[vllm, serve, \"{weights}\"]"), "the policy has no weights"},
      {PolicyWith("path: /m, " + digest, "[vllm, \"{weights}\", \"{compile_cache}\"]"),
       "give weights.compile_cache"},
  };
  for (const auto& one : kCases)
    EXPECT_THAT(FirstWeightsProblem(one.policy), HasSubstr(one.why)) << one.policy;
}

TEST(WeightsPolicy, ACompileCacheIsKeyedByVersionModelAndDevice) {
  Weights weights;
  weights.digest = kDigest;
  EXPECT_EQ(CacheKeyOf(weights, "vllm", "", "h100"), "");
  weights.compile_cache = CompileCache{.version = "0.11"};
  const std::string key = CacheKeyOf(weights, "vllm", "", "h100");
  EXPECT_TRUE(key.starts_with("vllm-"));
  EXPECT_NE(CacheKeyOf(weights, "vllm", "", "a100"), key);
  EXPECT_EQ(CacheKeyOf(weights, "vllm", "image:1", "h100"), key);
  weights.compile_cache->version = "0.12";
  EXPECT_NE(CacheKeyOf(weights, "vllm", "", "h100"), key);
  weights.digest = "sha256:" + std::string(64, 'b');
  EXPECT_NE(CacheKeyOf(weights, "vllm", "", "h100"), key);
}

std::string WithStore(const std::string& neighbours) {
  return With(
      {{"models", "[{name: chat-small}]"},
       {"scaling",
        "{policies: conf/policies/scaling/chat-small.yaml, cluster: [{kind: h100, count: 4}], weights: "
        "{store: /store, neighbours: " +
            neighbours + "}}"},
       {"tenants", "[{name: search, models: [chat-small]}]"}});
}

TEST(WeightsNeighbours, AreRead) {
  const LoadResult loaded = Parse(
      WithStore("{url: 'https://{node}.example:9470', token: 'env:WEIGHTS_TOKEN', ca: /ca.pem, most: 5}"));
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  ASSERT_TRUE(loaded.config);
  const NeighbourServers& read = *loaded.config->scaling->weights->neighbours;
  EXPECT_EQ(read.url, "https://{node}.example:9470");
  EXPECT_FALSE(read.token.empty());
  EXPECT_EQ(read.ca, "/ca.pem");
  EXPECT_EQ(read.most, 5U);
}

TEST(WeightsNeighbours, ProblemsAreReported) {
  const std::string at = "/scaling/weights/neighbours";
  const std::pair<std::string, std::string> cases[] = {
      {"{token: 'env:WEIGHTS_TOKEN'}", at},
      {"{url: 'http://{node}:9470'}", at},
      {"{url: '{node}', token: 'env:WEIGHTS_TOKEN'}",
       at + "/url (line 2): must be an http or https URL, such as http://{address}:9470"},
      {"{url: 'http://{node}:9470/?x=1', token: 'env:WEIGHTS_TOKEN'}", at + "/url (line 2): must be an http"},
      {"{url: 'http://{node}:9470', token: plain}", at + "/token"},
      {"{url: 'http://{node}:9470', token: 'env:WEIGHTS_TOKEN', most: 0}", at + "/most"},
      {"{url: 'http://{node}:9470', token: 'env:WEIGHTS_TOKEN', ca: ca.pem}", "must be an absolute path"},
      {"{url: 'http://{node}:9470', token: 'env:WEIGHTS_TOKEN', port: 1}", "port"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_THAT(Problems(WithStore(text)), testing::Contains(HasSubstr(problem))) << text;
}

}  // namespace
}  // namespace gateway::config
