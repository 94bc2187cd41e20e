// Back-off after failures, cold starts, and what a replica is estimated to do.
#include "gateway/control/scaling/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/control/learned/cold_starts.h"
#include "gateway/control/workloads/crash_loop.h"

namespace gateway::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

TEST(CrashLoop, WaitsTwiceAsLongAfterEachFailureUpToFiveMinutes) {
  CrashLoop crashes;
  conf::TimePoint now = kStart;
  EXPECT_TRUE(crashes.MayStart(now));
  std::vector<int64_t> pauses;
  for (int i = 0; i < 11; ++i) {
    crashes.Failed("exit 1", {}, now);
    pauses.push_back(std::chrono::duration_cast<seconds>(crashes.next() - now).count());
    EXPECT_FALSE(crashes.MayStart(crashes.next() - conf::Duration(1)));
    now = crashes.next();
    EXPECT_TRUE(crashes.MayStart(now));
  }
  EXPECT_THAT(pauses, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300));
  EXPECT_EQ(crashes.failures(), 11u);
  crashes.Served(seconds(59));
  EXPECT_EQ(crashes.failures(), 11u);
  crashes.Served(minutes(1));
  EXPECT_EQ(crashes.failures(), 0u);
  EXPECT_THAT(crashes.why(), IsEmpty());
}

TEST(CrashLoop, OfSeveralThatFailTogetherOneCounts) {
  CrashLoop crashes;
  for (int i = 0; i < 10; ++i) crashes.Failed("gone", {}, kStart);
  EXPECT_EQ(crashes.failures(), 1u);
  EXPECT_EQ(crashes.next(), kStart + seconds(1));
}

TEST(ColdStarts, AreMeasuredForEachKindAndTheLongestCountsForTheModel) {
  ColdStarts starts;
  EXPECT_EQ(starts.Quantile("m", 0.9), conf::Duration());
  for (int i = 1; i <= 10; ++i) starts.Add("m", "h100", seconds(i));
  starts.Add("m", "910b", seconds(100));
  EXPECT_EQ(starts.Quantile("m", "h100", 0.9), seconds(9));
  EXPECT_EQ(starts.Quantile("m", 0.9), seconds(100));
  for (int i = 0; i < 1000; ++i) starts.Add("m", "h100", seconds(2));
  EXPECT_EQ(starts.Quantile("m", "h100", 0.99), seconds(2));
  EXPECT_EQ(starts.rows()[1].starts, ColdStarts::kKept);
}

TEST(Capacity, IsAGuessThenThePresetThenMeasured) {
  EXPECT_EQ(EstimateCapacity("", {}, kStart).by, "a first guess");
  const CapacityEstimate preset = EstimateCapacity("llama-3.3-70b-4xh100", {}, kStart);
  EXPECT_EQ(preset.by, "preset llama-3.3-70b-4xh100");
  EXPECT_GT(preset.capacity.prefill_token, EstimateCapacity("", {}, kStart).capacity.prefill_token);
  router::EngineSignals engine;
  engine.Configure({.max_running = 7, .kv_tokens = 12'345});
  const router::EngineSignals* const one = &engine;
  const CapacityEstimate told = EstimateCapacity("llama-3.3-70b-4xh100", {&one, 1}, kStart);
  EXPECT_EQ(told.capacity.max_running, 7);
  EXPECT_EQ(told.capacity.kv_tokens, 12'345);
  EXPECT_EQ(told.capacity.prefill_token, preset.capacity.prefill_token) << "an engine without metrics";
  EXPECT_EQ(told.by, preset.by);
}

}  // namespace
}  // namespace gateway::control
