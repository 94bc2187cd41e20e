#include "router/facts/api.h"

#include <gtest/gtest.h>

#include <set>

namespace router {
namespace {

TEST(MatchPath, FindsEveryApiUnderItsVersionedPath) {
  std::set<std::string_view> names;
  for (const ApiSpec& spec : AllApis()) {
    const auto route = MatchPath("/v1" + std::string(spec.path));
    ASSERT_TRUE(route) << spec.name;
    EXPECT_EQ(route->api, spec.api);
    EXPECT_EQ(route->spec, &SpecOf(spec.api));
    EXPECT_EQ(ApiByName(spec.name), spec.api);
    names.insert(spec.name);
  }
  EXPECT_EQ(names.size(), kApiCount);
  EXPECT_EQ(ApiByName("chat"), std::nullopt);
}

TEST(MatchPath, ReadsTheTable) {
  struct Case {
    std::string_view target;
    std::optional<Api> api;
    std::string_view model;
  };
  const Case cases[] = {
      {"/v1/chat/completions?api-version=1", Api::kChatCompletions, ""},
      {"/chat/completions", std::nullopt, ""},
      {"/v1/chat/completions/", std::nullopt, ""},
      {"/v1//chat/completions", std::nullopt, ""},
      {"/v1", std::nullopt, ""},
      {"", std::nullopt, ""},
      {"/rerank", Api::kRerank, ""},
      {"/v1/rerank", Api::kRerank, ""},
      {"/v2/rerank", Api::kRerank, ""},
      {"/v2/score", std::nullopt, ""},
      {"/score?x", Api::kScore, ""},
      {"/tokenize", Api::kTokenize, ""},
      {"/detokenize", Api::kDetokenize, ""},
      {"/v1/messages/count_tokens?beta=true", Api::kCountTokens, ""},
      {"/v1/responses/input_tokens", Api::kInputTokens, ""},
      {"/v1/models", Api::kModels, ""},
      {"/v1/models?limit=5", Api::kModels, ""},
      {"/v1/models/", std::nullopt, ""},
      {"/v1/models/gpt-4o-mini", Api::kModels, "gpt-4o-mini"},
      {"/v1/models/meta-llama/Llama-3.1-8B", Api::kModels, "meta-llama/Llama-3.1-8B"},
      {"/v1/models/meta-llama%2FLlama%2d3?x=/y", Api::kModels, "meta-llama/Llama-3"},
      {"/v1/models/a+b", Api::kModels, "a+b"},
      {"/v1/models/a%2", std::nullopt, ""},
      {"/v1/models/a%zz", std::nullopt, ""},
      {"/v1/models/a%00", std::nullopt, ""},
      {"/v1/models/a%0d%0aX", std::nullopt, ""},
      {"/models/x", std::nullopt, ""},
      {"/v1/files", Api::kFiles, ""},
      {"/v1/files/file-1/content", Api::kFiles, "file-1/content"},
      {"/v1/batches/batch_1/cancel?x", Api::kBatches, "batch_1/cancel"},
      {"/v1/messages/batches", Api::kMessageBatches, ""},
      {"/v1/messages/batches/msgbatch_1/results", Api::kMessageBatches, "msgbatch_1/results"},
      {"/messages/batches", std::nullopt, ""},
  };
  for (const Case& c : cases) {
    const auto route = MatchPath(c.target);
    ASSERT_EQ(route.has_value(), c.api.has_value()) << c.target;
    if (!route) continue;
    EXPECT_EQ(route->api, *c.api) << c.target;
    EXPECT_EQ(route->rest, c.model) << c.target;
  }
}

}  // namespace
}  // namespace router
