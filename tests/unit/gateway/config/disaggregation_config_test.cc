// Roles of endpoints, and what they must agree on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/config/disaggregation.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

using testing::IsEmpty;

std::string Pool(const std::string& endpoints, const std::string& more = "") {
  return With({{"models", fmt::format("[{{name: small, endpoints: [{}]{}}}]", endpoints, more)}});
}
std::string Endpoint(int number, const std::string& engine, const std::string& more) {
  return fmt::format("{{url: http://h:{}, engine: {}, {}}}", number, engine, more);
}
std::string Both(const std::string& engine) {
  return Endpoint(1, engine, "role: prefill") + ", " + Endpoint(2, engine, "role: decode");
}

TEST(DisaggregationConfig, RefusesWhatCannotWorkWithPathAndReason) {
  const std::string at = "t.yaml:/models/0/";
  const std::pair<std::string, std::string> cases[] = {
      {Pool(Endpoint(1, "vllm", "role: prefil")),
       "endpoints/0/role (line 1): unknown role \"prefil\", did you mean \"prefill\"?"},
      {Pool(Endpoint(1, "vllm", "role: prefill")),
       "endpoints (line 1): some endpoints have the role prefill and none has the role decode; give at least "
       "one the role decode"},
      {Pool(Endpoint(1, "sglang", "role: prefill") + ", " + Endpoint(2, "sglang", "role: both")),
       "endpoints (line 1): some endpoints have the role prefill and none has the role decode; give at least "
       "one the role decode"},
      {Pool(Endpoint(1, "vllm", "role: decode")),
       "endpoints (line 1): some endpoints have the role decode and none has the role prefill; give at least "
       "one the role prefill"},
      {Pool(Both("vllm") + ", " + Endpoint(3, "tgi", "role: decode")),
       "endpoints/2/role (line 1): tgi cannot hand prompts over; vllm and sglang can"},
      {Pool(Both("vllm") + ", " + Endpoint(3, "openai", "weight: 1")),
       "endpoints/2/engine (line 1): must be vllm, as of the other endpoints: prompts are handed over "
       "between "
       "engines of one kind"},
      {Pool(Both("vllm") + ", " + Endpoint(3, "vllm", "track: v2"),
            ", routing: {canaries: [{track: v2, percent: 1}]}"),
       "endpoints/2/track (line 1): cannot be used in a pool with roles; make the track a model of its own"},
      {Pool(Endpoint(1, "vllm", "role: prefill, bootstrap_port: 8998") + ", " +
            Endpoint(2, "vllm", "role: decode")),
       "endpoints/0/bootstrap_port (line 1): is of sglang endpoints with role: prefill only"},
      {Pool(Endpoint(1, "vllm", "weight: 1"), ", disaggregation: {min_prompt: 10, min_uncached: 5}"),
       "disaggregation (line 1): has no effect: no endpoint of this model has a role"},
      {Pool(Both("vllm"), ", disaggregation: {min_prompt: 10, min_uncached: 11}"),
       "disaggregation/min_uncached (line 1): must not be more than min_prompt"},
      {Pool(Both("vllm"), ", disaggregation: {min_prompt: 0, min_uncached: 0}"), "disaggregation/min_prompt"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(Problems(text), testing::Contains(testing::StartsWith(at + problem))) << text;
  }
}

TEST(DisaggregationConfig, TellsTheRouterHowPromptsAreHandedOver) {
  for (const bool sglang : {false, true}) {
    const LoadResult result =
        Parse(Pool(Both(sglang ? "sglang" : "vllm"), ", disaggregation: {min_prompt: 2048}"));
    ASSERT_TRUE(result.config) << conf::ToString(result.problems[0]);
    const auto spec = config::HandoverOf(result.config->models[0]);
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->min_prompt, 2048);
    EXPECT_EQ(spec->min_uncached, 512);
    EXPECT_EQ(spec->decodes_whole, !sglang);
    EXPECT_EQ(spec->at_once, sglang);
  }
}

TEST(DisaggregationConfig, IsNothingWithoutRoles) {
  const LoadResult result = Parse(With({}));
  ASSERT_TRUE(result.config);
  EXPECT_FALSE(config::HandoverOf(result.config->models[0]));
}

TEST(DisaggregationConfig, AllowsEndpointsThatDoBoth) {
  EXPECT_THAT(Problems(Pool(Endpoint(1, "vllm", "role: prefill") + ", " + Endpoint(2, "vllm", "weight: 1"))),
              IsEmpty());
  EXPECT_THAT(Problems(Pool(Both("sglang") + ", " + Endpoint(3, "sglang", "role: both"))), IsEmpty());
}

}  // namespace
}  // namespace gateway
