// What requests have met at the replicas of a rollout: added up over gateways.
#include "gateway/control/models/version_tries.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gateway::control {
namespace {

GatewayRecord TellingTries(std::string name, std::string start, TriesByModel tries) {
  return {.name = std::move(name), .start = std::move(start), .tries = std::move(tries)};
}

TriesAt Tries(uint64_t tries, uint64_t failures = 0) {
  return {.tries = tries, .failures = failures};
}

TEST(TriesElsewhere, CountsWhatWasMetSinceAGatewayTellsOfTheModel) {
  TriesElsewhere elsewhere;
  elsewhere.Update(TellingTries("b", "1", {{"chat", {{"chat@old", Tries(1000, 7)}}}}));
  EXPECT_EQ(elsewhere.all().at("chat").size(), 0u) << "before the rollout";
  elsewhere.Update(
      TellingTries("b", "1", {{"chat", {{"chat@old", Tries(1010, 8)}, {"chat@new", Tries(4, 2)}}}}));
  EXPECT_EQ(elsewhere.all().at("chat").at("chat@old"), Tries(10, 1));
  EXPECT_EQ(elsewhere.all().at("chat").at("chat@new"), Tries(4, 2)) << "a replica that is new";
  elsewhere.Update(TellingTries("c", "1", {{"chat", {{"chat@new", Tries(1)}}}}));
  elsewhere.Update(TellingTries("c", "1", {{"chat", {{"chat@new", Tries(6)}}}}));
  EXPECT_EQ(elsewhere.all().at("chat").at("chat@new"), Tries(9, 2)) << "of all gateways";
}

TEST(TriesElsewhere, ARestartedGatewayCountsFromZeroAndTakesNothingAway) {
  TriesElsewhere elsewhere;
  elsewhere.Update(TellingTries("b", "1", {{"chat", {{"chat@new", Tries(0)}}}}));
  elsewhere.Update(TellingTries("b", "1", {{"chat", {{"chat@new", Tries(50, 5)}}}}));
  elsewhere.Update(TellingTries("b", "2", {{"chat", {{"chat@new", Tries(3, 1)}}}}));
  EXPECT_EQ(elsewhere.all().at("chat").at("chat@new"), Tries(53, 6));
  // Counters that go back without a restart are no tries.
  elsewhere.Update(TellingTries("b", "2", {{"chat", {{"chat@new", Tries(2)}}}}));
  EXPECT_EQ(elsewhere.all().at("chat").at("chat@new"), Tries(53, 6));
}

TEST(TriesElsewhere, AModelIsForgottenOnceNoGatewayTellsOfIt) {
  TriesElsewhere elsewhere;
  for (const char* const name : {"b", "c"})
    elsewhere.Update(TellingTries(name, "1", {{"chat", {{"chat@new", Tries(1)}}}}));
  elsewhere.Update(TellingTries("b", "1", {}));
  EXPECT_TRUE(elsewhere.all().contains("chat")) << "the other one tells";
  elsewhere.Forget("c");
  elsewhere.Update(TellingTries("b", "1", {}));
  EXPECT_TRUE(elsewhere.all().empty());
}

TEST(VersionTries, TimesAreLogarithmsOfSeconds) {
  LogCells cells;
  cells.Observe(std::chrono::milliseconds(10));
  cells.Observe(std::chrono::milliseconds(1000));
  ReplicaCells replica;
  replica.first_token.count.Add(cells.count.value());
  replica.first_token.sum.Add(cells.sum.value());
  replica.first_token.sum_of_squares.Add(cells.sum_of_squares.value());
  const router::VersionSample sample = SampleOf(TriesOf(replica));
  EXPECT_EQ(sample.first_token.count, 2u);
  EXPECT_NEAR(sample.first_token.sum, std::log(0.01), 1e-4);
  EXPECT_NEAR(sample.first_token.sum_of_squares, std::pow(std::log(0.01), 2), 1e-3);
}

}  // namespace
}  // namespace gateway::control
