// When a node is not trusted any more, and when it is again.
#include "gateway/control/nodes/node_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::control {
namespace {

using namespace std::chrono_literals;
using plugins::launchers::SharedNode;
using scheduler::Health;
using testing::ElementsAre;
using testing::IsEmpty;

class NodeWatched : public testing::Test {
 protected:
  void Nodes(int count) {
    nodes_.clear();
    for (int i = 1; i <= count; ++i) nodes_.push_back({.name = "n" + std::to_string(i)});
    watch_.Update(nodes_, now_);
  }
  void Silence(const std::string& node) {
    watch_.Silent(node, "refused", now_);
    now_ += NodeWatch::kConfirm;
    watch_.Silent(node, "refused", now_);
    watch_.Evaluate(now_);
  }
  void Suspect(const std::string& node) {
    watch_.Answered(nodes_.back().name, now_);
    Silence(node);
    ASSERT_TRUE(watch_.suspect(node));
  }
  void Pass(conf::Duration time) {
    now_ += time;
    watch_.Evaluate(now_);
  }

  NodeWatch watch_;
  std::vector<SharedNode> nodes_;
  conf::TimePoint now_{1000s};
};

TEST_F(NodeWatched, IsSuspectWhenItIsSilentTwiceWhileAnotherAnswers) {
  Nodes(4);
  watch_.Answered("n4", now_);
  watch_.Silent("n1", "refused", now_);
  Pass(0s);
  EXPECT_FALSE(watch_.suspect("n1"));
  EXPECT_EQ(watch_.WhyNoLaunch("n1", now_), "refused") << "that much is known";
  EXPECT_THAT(watch_.Due(now_), IsEmpty());
  now_ += NodeWatch::kConfirm;
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n1"));
  watch_.Silent("n1", "refused", now_);
  Pass(0s);
  ASSERT_TRUE(watch_.suspect("n1"));
  EXPECT_EQ(watch_.doubt("n1")->why, "refused");
  EXPECT_TRUE(watch_.doubt("n1")->ours);
  EXPECT_EQ(watch_.suspicions(), 1u);
}

TEST_F(NodeWatched, OneThatAnswersInBetweenIsNot) {
  Nodes(4);
  watch_.Answered("n4", now_);
  watch_.Silent("n1", "refused", now_);
  now_ += NodeWatch::kConfirm;
  watch_.Answered("n1", now_);
  EXPECT_EQ(watch_.WhyNoLaunch("n1", now_), "");
  watch_.Silent("n1", "refused", now_);
  Pass(0s);
  EXPECT_FALSE(watch_.suspect("n1"));
}

TEST_F(NodeWatched, AnUnreachableNetworkMakesNoNodeSuspect) {
  Nodes(4);
  Silence("n1");
  EXPECT_FALSE(watch_.suspect("n1"));
  EXPECT_EQ(watch_.WhyNoLaunch("n1", now_), "") << "a launch is worth a try";
  EXPECT_EQ(watch_.ToCompare("n1", now_), "n2");
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n2"));
  Silence("n2");
  EXPECT_FALSE(watch_.suspect("n1"));
  EXPECT_FALSE(watch_.suspect("n2"));
  watch_.Answered("n3", now_);
  Pass(0s);
  EXPECT_TRUE(watch_.suspect("n1"));
}

TEST_F(NodeWatched, AtMostHalfOfTheNodesAreAndTheOnlyOneNever) {
  Nodes(4);
  for (const char* node : {"n1", "n2", "n3"}) {
    watch_.Answered("n4", now_);
    Silence(node);
  }
  EXPECT_THAT(watch_.suspects(), ElementsAre("n1", "n2"));
  EXPECT_EQ(watch_.WhyNoLaunch("n3", now_), "");

  watch_ = {};
  Nodes(1);
  Silence("n1");
  EXPECT_FALSE(watch_.suspect("n1"));
  EXPECT_EQ(watch_.WhyNoLaunch("n1", now_), "");
  EXPECT_EQ(watch_.ToCompare("n1", now_), "");
}

TEST_F(NodeWatched, IsTrustedAgainWhenItAnswersAndNotBeforeAWhileThatDoubles) {
  Nodes(4);
  conf::Duration pause = NodeWatch::kFirst;
  for (int i = 0; i < 10; ++i) {
    Suspect("n1");
    const conf::TimePoint begun = now_;
    watch_.Answered("n1", now_ + 1s);
    Pass(pause - 1ms);
    EXPECT_TRUE(watch_.suspect("n1")) << i;
    Pass(1ms);
    EXPECT_FALSE(watch_.suspect("n1")) << i << ": it has answered since";
    EXPECT_EQ(now_ - begun, pause);
    pause = std::min(2 * pause, NodeWatch::kLongest);
  }
  Pass(NodeWatch::kForgiven + 1s);
  Suspect("n1");
  watch_.Answered("n1", now_ + 1s);
  Pass(NodeWatch::kFirst);
  EXPECT_FALSE(watch_.suspect("n1")) << "what was long ago is forgiven";
}

TEST_F(NodeWatched, StaysSuspectAsLongAsItIsSilentAndIsAskedNowAndThen) {
  Nodes(2);
  Suspect("n1");
  EXPECT_THAT(watch_.Due(now_), IsEmpty());
  Pass(NodeWatch::kFirst);
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n1"));
  watch_.Silent("n1", "refused", now_);
  EXPECT_THAT(watch_.Due(now_), IsEmpty());
  Pass(1h);
  EXPECT_TRUE(watch_.suspect("n1"));
  watch_.Answered("n1", now_);
  Pass(0s);
  EXPECT_FALSE(watch_.suspect("n1"));
}

TEST_F(NodeWatched, OneMuteReplicaHasItsNodeAskedAndNoMore) {
  Nodes(2);
  watch_.Replicas("n1", {.serving = 1, .mute = 1}, now_);
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n1"));
  watch_.Answered("n1", now_);
  EXPECT_THAT(watch_.Due(now_), IsEmpty());
  Pass(NodeWatch::kAskRuns);
  EXPECT_FALSE(watch_.suspect("n1"));
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n1"));
  watch_.Replicas("n2", {.late = 1}, now_);
  EXPECT_THAT(watch_.Due(now_), ElementsAre("n1", "n2"));
}

TEST_F(NodeWatched, WhereNothingCanBeAskedItsReplicasSpeakForIt) {
  Nodes(4);
  for (const SharedNode& node : nodes_) watch_.CannotBeAsked(node.name);
  EXPECT_FALSE(watch_.ShouldAsk("n1", now_));
  watch_.Replicas("n1", {.serving = 1, .mute = 1}, now_);
  watch_.Replicas("n2", {.serving = 3, .mute = 2}, now_);
  watch_.Replicas("n3", {.serving = 2, .mute = 2}, now_);
  EXPECT_THAT(watch_.Due(now_), IsEmpty());
  Pass(NodeWatch::kMute);
  EXPECT_THAT(watch_.suspects(), ElementsAre("n3")) << "one that hangs may be its own fault";
  Pass(NodeWatch::kFirst);
  EXPECT_TRUE(watch_.suspect("n3"));
  watch_.Replicas("n3", {.serving = 2, .mute = 1}, now_);
  Pass(0s);
  EXPECT_FALSE(watch_.suspect("n3"));
}

TEST_F(NodeWatched, ALaunchAsksFirstUnlessItHasJustAnswered) {
  Nodes(2);
  EXPECT_TRUE(watch_.ShouldAsk("n1", now_));
  watch_.Answered("n1", now_);
  EXPECT_FALSE(watch_.ShouldAsk("n1", now_));
  EXPECT_TRUE(watch_.ShouldAsk("n1", now_ + NodeWatch::kFresh));
  EXPECT_FALSE(watch_.ShouldAsk("n9", now_)) << "nobody knows it";
}

TEST_F(NodeWatched, TheManagersReportOverridesOurSuspicion) {
  Nodes(2);
  Suspect("n1");
  nodes_[0].health = Health::kQuarantined;
  nodes_[0].why = "Slurm says down";
  Pass(1s);
  watch_.Update(nodes_, now_);
  EXPECT_EQ(watch_.doubt("n1")->why, "Slurm says down");
  EXPECT_FALSE(watch_.doubt("n1")->ours);
  Pass(NodeWatch::kFirst);
  EXPECT_THAT(watch_.Due(now_), IsEmpty()) << "it is given up";
  nodes_.erase(nodes_.begin());
  watch_.Update(nodes_, now_);
  EXPECT_EQ(watch_.doubt("n1"), std::nullopt);
  EXPECT_THAT(watch_.suspects(), IsEmpty());
}

TEST_F(NodeWatched, ANodeThatTheManagerDrainsHasToBeEmptied) {
  Nodes(2);
  EXPECT_EQ(watch_.LeaveOf("n1"), std::nullopt);
  nodes_[0].leaving = plugins::launchers::Leaving::kReplicas;
  nodes_[0].why = "it is cordoned";
  watch_.Update(nodes_, now_);
  const auto leave = watch_.LeaveOf("n1");
  ASSERT_TRUE(leave.has_value());
  EXPECT_EQ(leave->who, plugins::launchers::Leaving::kReplicas);
  EXPECT_EQ(leave->why, "it is cordoned");
  EXPECT_EQ(watch_.LeaveOf("n2"), std::nullopt);
  EXPECT_EQ(watch_.LeaveOf("n3"), std::nullopt) << "there is none";
}

}  // namespace
}  // namespace gateway::control
