#include "router/load/occupied.h"

#include <gtest/gtest.h>

#include "scheduler/engine/presets.h"

namespace router {
namespace {

using std::chrono::seconds;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

double OccupiedBy(const Telemetry& telemetry, InFlightRequest* ours = nullptr) {
  EngineSignals engine;
  conf::TimePoint now = kStart;
  if (ours != nullptr) engine.Begin(*ours, now);
  for (int look = 0; look < 3; ++look) engine.OnTelemetry(telemetry, {.requests = 1}, now += seconds(1));
  return OccupiedOf(engine, scheduler::autoscale::CapacityOf(*scheduler::engine::FindPreset("demo")), {},
                    seconds(1), now);
}

// A policy's preset says what an engine may run, not how this one was started.
TEST(OccupiedOf, AReplicaThatWasSeenToBeFullIsWhateverThePresetSays) {
  EXPECT_NEAR(OccupiedBy({.running = 9}), 8.0 / 32, 1e-9) << "without the one that has ended";
  EXPECT_EQ(OccupiedBy({.running = 8, .waiting = 12}), 1) << "others queue";
  EXPECT_EQ(OccupiedBy({}), 0);
}

TEST(OccupiedOf, LinesOfBatchesDoNotCount) {
  InFlightRequest line{.work = {.tokens = 10, .spare = true}};
  EXPECT_EQ(OccupiedBy({.running = 1}, &line), 0);
  InFlightRequest request{.work = {.tokens = 10}};
  EXPECT_GT(OccupiedBy({.running = 1}, &request), 0);
}

}  // namespace
}  // namespace router
