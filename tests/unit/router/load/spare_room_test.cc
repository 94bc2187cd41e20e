#include "router/load/spare_room.h"

#include <gtest/gtest.h>

namespace router {
namespace {

ReplicaSignals Running(double requests) {
  ReplicaSignals signals;
  signals.requests = requests;
  signals.prefill_rate = 10'000;
  return signals;
}

TEST(SpareRoom, IsWhereNoPromptIsComputedAndPlacesAndCacheAreLeft) {
  ObservedSignals seen;
  seen.max_running = 100;
  EXPECT_TRUE(HasSpareRoom(Running(0), seen, {}));
  EXPECT_TRUE(HasSpareRoom(Running(74), seen, {}));
  EXPECT_FALSE(HasSpareRoom(Running(75), seen, {})) << "a quarter of the places is left to others";
  EXPECT_FALSE(HasSpareRoom(Running(40), seen, {.max_running = 50})) << "the operator's number counts";
  ReplicaSignals computing = Running(1);
  computing.backlog = 1'000;
  EXPECT_FALSE(HasSpareRoom(computing, seen, {}));
  ReplicaSignals filled = Running(1);
  filled.kv_use = 0.75;
  EXPECT_FALSE(HasSpareRoom(filled, seen, {}));
}

TEST(SpareRoom, WithoutANumberOfTheEngineItWasSeenToRunSoMany) {
  ObservedSignals seen;
  EXPECT_TRUE(HasSpareRoom(Running(180), seen, {})) << "nothing is known";
  seen.observed_batch_limit = 32;
  EXPECT_FALSE(HasSpareRoom(Running(40), seen, {}));
}

TEST(SpareRoom, WithABoundIsWhereTokensComeInTimeAndGrowsByAQuarterAtATime) {
  ObservedSignals seen;
  seen.max_running = 1000;
  const HeadroomLimits bounded{.spare_token_time = std::chrono::milliseconds(50)};
  EXPECT_TRUE(HasSpareRoom(Running(0), seen, bounded)) << "nobody is there whom it could delay";
  EXPECT_FALSE(HasSpareRoom(Running(1), seen, bounded)) << "no answer was measured";
  ReplicaSignals measured = Running(20);
  measured.token_time = 0.04;
  measured.token_requests = 20;
  EXPECT_TRUE(HasSpareRoom(measured, seen, bounded));
  measured.requests = 24;
  EXPECT_TRUE(HasSpareRoom(measured, seen, bounded));
  measured.requests = 26;
  EXPECT_FALSE(HasSpareRoom(measured, seen, bounded)) << "how fast tokens come then is not known yet";
  measured.requests = 20;
  measured.token_time = 0.06;
  EXPECT_FALSE(HasSpareRoom(measured, seen, bounded));
  EXPECT_TRUE(HasSpareRoom(measured, seen, {})) << "without a bound";
}

}  // namespace
}  // namespace router
