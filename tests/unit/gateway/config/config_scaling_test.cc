// Scaling policy files: what is read, and what is refused with its path and reason, all at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/config/model_policy.h"
#include "gateway/config/scaling_policy.h"
#include "tests/support/shipped.h"

namespace gateway::config {
namespace {

using scheduler::autoscale::Law;
using scheduler::autoscale::RateUnit;
using scheduler::autoscale::ScalingPolicy;
using scheduler::autoscale::Select;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kWhole = R"(
model: chat-small
replicas: {min: 0, max: 16}
slo: {ttft: 500ms, inter_token: 50ms, attainment: 0.995}
scaling: {policy: demand, up_at: 0.85, down_at: 0.7, window: 20s, hold: 3m, margin: 0}
behavior:
  scale_up: {stabilization: 0s, policies: [{type: percent, value: 100, period: 15s}, {type: replicas, value: 4, period: 15s}], select: max}
  scale_down: {stabilization: 300s, policies: [{type: replicas, value: 1, period: 60s}], select: min}
cold_start: {hold: 5m}
idle: {scale_to_zero_after: 20m}
schedule: [{cron: "0 8 * * 1-5", timezone: Asia/Shanghai, min: 2}, {cron: "0 20 * * *", min: 0}]
)";

ScalingPolicy Read(std::string_view text) {
  auto loaded = ReadScalingPolicy(text, "p.yaml");
  EXPECT_TRUE(loaded.problems.empty()) << conf::ToString(loaded.problems.front());
  return loaded.value.value_or(ScalingPolicy{});
}

std::vector<std::string> Problems(std::string_view text) {
  std::vector<std::string> problems;
  for (const conf::Problem& problem : ReadScalingPolicy(text, "p.yaml").problems) {
    problems.push_back(conf::ToString(problem));
  }
  return problems;
}

TEST(ScalingPolicy, IsReadAsAWhole) {
  const ScalingPolicy policy = Read(kWhole);
  EXPECT_EQ(policy.model, "chat-small");
  EXPECT_EQ(policy.min, 0u);
  EXPECT_EQ(policy.max, 16u);
  EXPECT_EQ(policy.ttft, std::chrono::milliseconds(500));
  EXPECT_EQ(policy.attainment, 0.995);
  EXPECT_EQ(policy.law, Law::kDemand);
  EXPECT_EQ(policy.demand.up_at, 0.85);
  EXPECT_EQ(policy.demand.hold, std::chrono::minutes(3));
  ASSERT_TRUE(policy.behavior);
  EXPECT_EQ(policy.behavior->scale_up.policies.size(), 2u);
  EXPECT_EQ(policy.behavior->scale_up.policies[0].type, RateUnit::kPercent);
  EXPECT_EQ(policy.behavior->scale_down.select, Select::kMin);
  EXPECT_EQ(policy.behavior->scale_down.stabilization, std::chrono::seconds(300));
  EXPECT_EQ(policy.hold, std::chrono::minutes(5));
  EXPECT_EQ(policy.scale_to_zero_after, std::chrono::minutes(20));
  ASSERT_EQ(policy.schedule.size(), 2u);
  EXPECT_EQ(policy.schedule[0].zone.name(), "Asia/Shanghai");
  EXPECT_EQ(policy.schedule[0].cron.text(), "0 8 * * 1-5");
  EXPECT_EQ(policy.schedule[1].timezone, "UTC");
}

TEST(ScalingPolicy, EveryLawHasItsOwnThresholds) {
  const ScalingPolicy kpa =
      Read("{model: m, replicas: {max: 4}, scaling: {policy: kpa, target: 24, panic_threshold: 3}}");
  EXPECT_EQ(kpa.law, Law::kKpa);
  EXPECT_EQ(kpa.kpa.target, 24);
  EXPECT_EQ(kpa.kpa.panic_threshold, 3);
  EXPECT_EQ(Read("{model: m, replicas: {max: 4}, scaling: {policy: hpa, target: 24, sync: 30s}}").hpa.sync,
            std::chrono::seconds(30));
  EXPECT_EQ(Read("{model: m, replicas: {max: 4}, scaling: {policy: schedule}}").law, Law::kSchedule);
}

TEST(ScalingPolicy, AMissingOrForeignThresholdIsRefused) {
  EXPECT_THAT(Problems("{model: m, replicas: {max: 4}, scaling: {policy: kpa}}"),
              ElementsAre(AllOf(HasSubstr("/scaling"), HasSubstr("target"))));
  EXPECT_THAT(Problems("{model: m, replicas: {max: 4}, scaling: {policy: hpa, target: 0}}"),
              ElementsAre(HasSubstr("/scaling/target")));
  EXPECT_THAT(Problems("{model: m, replicas: {max: 4}, scaling: {policy: demand, target: 3}}"),
              ElementsAre(HasSubstr("/scaling/target")));
  EXPECT_THAT(Problems("{model: m, replicas: {max: 4}, scaling: {policy: demand, up_at: 0.8, down_at: 0.8}}"),
              ElementsAre(AllOf(HasSubstr("/scaling/down_at"), HasSubstr("up_at"))));
}

TEST(ScalingPolicy, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(Problems(R"(
replicas: {min: 5, max: 4}
slo: {ttft: 0s, attainment: 1.5}
scaling: {policy: demant}
behavior: {scale_up: {policies: [{type: percent, value: 0, period: 15s}], select: most}}
cold_start: {hold: 0s}
schedule: [{cron: "0 25 * * *", timezone: Asia/Shangai, min: 9}]
replica: {engine: vllm}
)"),
              testing::IsSupersetOf({HasSubstr("model"), HasSubstr("/replicas/min"), HasSubstr("/slo/ttft"),
                                     HasSubstr("/slo/attainment"), HasSubstr("/scaling/policy"),
                                     HasSubstr("/behavior/scale_up/policies/0/value"),
                                     HasSubstr("/behavior/scale_up/select"), HasSubstr("/cold_start/hold"),
                                     HasSubstr("/schedule/0/cron"), HasSubstr("/schedule/0/timezone"),
                                     HasSubstr("/replica")}));
}

TEST(ScalingPolicy, AFloorAboveTheMostIsRefused) {
  EXPECT_THAT(Problems("{model: m, replicas: {max: 4}, scaling: {policy: schedule}, schedule: [{cron: '* * * "
                       "* *', min: 5}]}"),
              ElementsAre(AllOf(HasSubstr("/schedule"), HasSubstr("5"))));
}

TEST(ScalingPolicy, WhatIsWrittenReadsBackAsTheSame) {
  const char* const texts[] = {
      "{model: m, replicas: {min: 1, max: 4}, scaling: {policy: demand, window: 7s, margin: 2}}",
      "{model: m, replicas: {max: 4}, scaling: {policy: kpa, target: 3, panic_window: 9s}, slo: {ttft: 1s}}",
      "{model: m, replicas: {max: 4}, scaling: {policy: hpa, target: 8}, idle: {scale_to_zero_after: 3m}, "
      "behavior: {scale_down: {stabilization: 90s, policies: [{type: percent, value: 10, period: 15s}]}}}",
      "{model: m, replicas: {max: 4}, scaling: {policy: schedule}, cold_start: {hold: 30s, heartbeat: 2s}, "
      "schedule: [{cron: '0 8 * * 1-5', timezone: Asia/Shanghai, min: 2}]}",
      "{model: m, replicas: {max: 4}, scaling: {policy: demand}, idle: {sleep_after: 2m, stop_after: 3h, "
      "host_memory: 20GiB, min_awake: 5s}}"};
  for (const char* text : texts) {
    const nlohmann::json written = ToJson(Read(text));
    EXPECT_EQ(ToJson(Read(written.dump())), written) << text;
  }
  EXPECT_EQ(ToJson(Read(texts[0]))["scaling"]["window"], "7s");
  EXPECT_EQ(ToJson(Read(texts[3]))["schedule"][0]["cron"], "0 8 * * 1-5");
  EXPECT_EQ(ToJson(Read(texts[4]))["idle"]["sleep_after"], "120s");
  EXPECT_EQ(Read(ToJson(Read(texts[2])).dump()).behavior->scale_down.policies[0].value, 10u);
}

TEST(ScalingPolicy, TheShippedOneSaysTheDefaults) {
  const ScalingPolicy policy = Read(tests::ReadShipped("policies/scaling/demand.yaml"));
  const ScalingPolicy defaults;
  EXPECT_EQ(policy.law, defaults.law);
  EXPECT_EQ(policy.demand.up_at, defaults.demand.up_at);
  EXPECT_EQ(policy.demand.down_at, defaults.demand.down_at);
  EXPECT_EQ(policy.demand.window, defaults.demand.window);
  EXPECT_EQ(policy.demand.hold, defaults.demand.hold);
  EXPECT_EQ(policy.demand.margin, defaults.demand.margin);
  EXPECT_EQ(policy.ttft, defaults.ttft);
  EXPECT_EQ(policy.inter_token, defaults.inter_token);
  EXPECT_EQ(policy.hold, defaults.hold);
  EXPECT_EQ(policy.scale_to_zero_after, defaults.scale_to_zero_after);
}

}  // namespace
}  // namespace gateway::config
