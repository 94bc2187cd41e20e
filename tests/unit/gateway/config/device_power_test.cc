// Exporters, prices of energy and budgets of power in the configuration.
#include "gateway/config/device_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Scaled(const std::string& more) {
  return With(
      {{"models", "[{name: chat-small}]"},
       {"scaling",
        "{policies: conf/policies/scaling/chat-small.yaml, cluster: [{kind: h100, count: 4}], " + more + "}"},
       {"tenants", "[{name: search, models: [chat-small]}]"}});
}

TEST(DevicePower, IsRead) {
  const LoadResult loaded = Parse(Scaled(
      "device_metrics: [{url: 'http://{node}:9400/metrics', interval: 5s}], "
      "energy: {usd_per_kwh: 0.3, grams_co2_per_kwh: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,"
      "22,23,24]}, power: {cluster_watts: 2000}, moves: {per_hour: 4, least_gain: 1m}"));
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  ASSERT_TRUE(loaded.config);
  const Scaling& scaling = *loaded.config->scaling;
  ASSERT_EQ(scaling.device_metrics.size(), 1u);
  EXPECT_EQ(scaling.device_metrics[0].interval, std::chrono::seconds(5));
  EXPECT_EQ(scaling.energy.usd_per_kwh.At(*conf::ParseTime("2027-01-01T05:00:00Z")), 0.3);
  EXPECT_EQ(scaling.energy.grams_co2_per_kwh.At(*conf::ParseTime("2027-01-01T05:00:00Z")), 6);
  EXPECT_EQ(scaling.nodes.fabric.domains.back().power_budget_watts, 2000);
  EXPECT_EQ(scaling.planning.policy.moves.per_hour, 4u);
  EXPECT_EQ(scaling.planning.policy.moves.least_gain, std::chrono::minutes(1));
}

TEST(DevicePower, ProblemsAreReported) {
  const std::pair<const char*, const char*> cases[] = {
      {"device_metrics: [{url: node}]",
       "/scaling/device_metrics/0/url (line 2): must be an http or https URL"},
      {"device_metrics: [{url: 'http://a/', interval: 10ms}]", "must be at least 1s"},
      {"energy: {usd_per_kwh: [1, 2]}", "/scaling/energy/usd_per_kwh (line 2): must be one number, or 24"},
      {"energy: {usd_per_kwh: -1}", "must be from 0 to 1000000"},
      {"power: {cluster_watts: -1}", "/scaling/power/cluster_watts"},
      {"power: {domain_watts: {leaf-9: 5}}", "unknown domain \"leaf-9\"; the cluster's fabric has"},
      {"power: {domain_watts: {leaf-9: 0}}", "must be watts from above 0"},
      {"power: {cluster_watts: 9, cap_low_bands: {above: 2}}", "/scaling/power/cap_low_bands/above"},
      {"power: {cluster_watts: 9, cap_low_bands: {}}", "has an effect with cluster: probe only"},
      {"power: {cap_low_bands: {}}", "but no budget; give cluster_watts"},
      {"moves: {per_hour: -1}", "/scaling/moves/per_hour"},
      {"moves: {per_hour: 4, rest: 0s}", "/scaling/moves/rest"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_THAT(Problems(Scaled(text)), testing::Contains(HasSubstr(problem))) << text;
}

}  // namespace
}  // namespace gateway::config
