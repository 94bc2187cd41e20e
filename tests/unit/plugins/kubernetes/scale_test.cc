#include "plugins/kubernetes/scale.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plugins::kubernetes {
namespace {

using nlohmann::json;

TEST(Scale, ThePathNamesTheSubresource) {
  EXPECT_EQ(ScalePath(Scalable::kDeployment, "models", "vllm"),
            "/apis/apps/v1/namespaces/models/deployments/vllm/scale");
  EXPECT_EQ(ScalePath(Scalable::kStatefulSet, "models", "vllm"),
            "/apis/apps/v1/namespaces/models/statefulsets/vllm/scale");
  EXPECT_EQ(ScalePath(Scalable::kLeaderWorkerSet, "models", "vllm"),
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/models/leaderworkersets/vllm/scale");
}

TEST(Scale, AnObjectHasWhatIsWantedAndWhatIsThere) {
  const auto scale = ParseScale({{"kind", "Scale"},
                                 {"metadata", {{"resourceVersion", "17"}}},
                                 {"spec", {{"replicas", 3}}},
                                 {"status", {{"replicas", 2}}}});
  ASSERT_TRUE(scale.ok());
  EXPECT_EQ(scale->wanted, 3U);
  EXPECT_EQ(scale->there, 2U);
  EXPECT_EQ(scale->version, "17");
}

TEST(Scale, NoReplicasAreLeftOutByTheServer) {
  const auto scale = ParseScale({{"kind", "Scale"}, {"spec", json::object()}});
  ASSERT_TRUE(scale.ok());
  EXPECT_EQ(scale->wanted, 0U);
}

TEST(Scale, AnythingElseIsAnError) {
  for (const json& odd : {json(nullptr), json::array(), json(5), json{{"kind", "Status"}}, json::object()})
    EXPECT_FALSE(ParseScale(odd).ok()) << odd.dump();
}

TEST(Scale, AChangeNamesTheVersionThatItReplaces) {
  EXPECT_EQ(ScaleTo(4, "17"), (json{{"spec", {{"replicas", 4}}}, {"metadata", {{"resourceVersion", "17"}}}}));
}

}  // namespace
}  // namespace plugins::kubernetes
