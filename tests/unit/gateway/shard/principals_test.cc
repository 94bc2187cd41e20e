#include "gateway/shard/principals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "gateway/shard/runtime.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Principals, HaveTheWeightsOfTheirParentTenantsTheRootFirst) {
  LoadResult loaded =
      Parse(With({{"tenants",
                   "[{name: acme, models: [small], weight: 4}, {name: search, parent: acme, weight: 2}, "
                   "{name: nlp, parent: search, weight: 3}]"}}));
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  ASSERT_TRUE(loaded.config.has_value());
  router::limits::LimitTree limits;
  router::ReplicaStates replicas;
  TokenEstimates estimates;
  ModelQueues queues;
  ScalingHintsByModel scaling_hints;
  ModelSwitches switches;
  const auto runtime = Runtime::Build(
      *std::move(loaded.config), {limits, replicas, estimates, queues, scaling_hints, switches}, net::Now());
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ASSERT_TRUE(limits.Update((*runtime)->LimitNodes()).ok());
  const auto index =
      BuildPrincipals(**runtime, std::make_shared<plugins::auth::KeyTable>(), limits, net::Now());
  EXPECT_THAT((*index->ForTenant("acme"))->parent_weights, IsEmpty());
  EXPECT_THAT((*index->ForTenant("acme/search"))->parent_weights, ElementsAre(4));
  EXPECT_THAT((*index->ForTenant("acme/search/nlp"))->parent_weights, ElementsAre(4, 2));
  EXPECT_EQ((*index->ForTenant("acme/search/nlp"))->weight, 3u);
}

}  // namespace
}  // namespace gateway
