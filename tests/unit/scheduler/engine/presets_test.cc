#include "scheduler/engine/presets.h"

#include <gtest/gtest.h>

#include <string>

namespace scheduler::engine {
namespace {

TEST(EnginePresets, EveryOfferedNameIsFoundAndPlausible) {
  for (std::string_view name : PresetNames()) {
    auto profile = FindPreset(name);
    ASSERT_TRUE(profile.has_value()) << name;
    EXPECT_EQ(profile->name, name);
    EXPECT_GE(profile->kv_blocks, 64u);
    if (name == "instant") continue;
    EXPECT_GT(profile->step_base, std::chrono::microseconds(500)) << name;
    EXPECT_LT(profile->step_base, std::chrono::milliseconds(200)) << name;
    EXPECT_LT(profile->per_prefill_token, profile->step_base) << name;
  }
}

// What is publicly reported for these pairs, within a factor that a planner can live with.
TEST(EnginePresets, DerivedFiguresAreNearReportedOnes) {
  auto h100 = FindPreset("llama-3.1-8b-h100");
  ASSERT_TRUE(h100);
  EXPECT_NEAR(h100->step_base.count() * 1e-6, 6.4, 1.0);          // ms
  EXPECT_NEAR(1e9 / h100->per_prefill_token.count(), 31e3, 5e3);  // tokens/s
  EXPECT_NEAR(h100->kv_blocks * 16.0, 400e3, 60e3);               // tokens of KV
  auto many = FindPreset("llama-3.3-70b-4xh100");
  ASSERT_TRUE(many);
  EXPECT_NEAR(many->step_base.count() * 1e-6, 16, 2);
}

TEST(EnginePresets, UnknownOrImpossiblePairsAreNotFound) {
  for (std::string_view name :
       {"", "llama-3.1-8b", "llama-3.1-8b-", "llama-3.1-8b-h9000", "llama-3.3-70b-h100",
        "llama-3.1-8b-0xh100", "llama-3.1-8b-xh100", "gpt-h100"}) {
    EXPECT_FALSE(FindPreset(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace scheduler::engine
