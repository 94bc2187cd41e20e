// A rollout where other gateways have the requests: the leader judges the new version by what they tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/control/scaling_loop_world.h"

namespace gateway::control {
namespace {

using namespace loop_world;
using testing::HasSubstr;
using tests::Eventually;
using tests::TestLoop;

constexpr std::string_view kRollingOut =
    "model: chat-small\nversion: v1\nreplicas: {min: 1, max: 1}\nscaling: {policy: schedule}\n"
    "rollout:\n  version: v2\n  replica: {engine: vllm, command: [serve, --port, \"{port}\"], api_key: "
    "none}\n"
    "  steps: [50, 100]\n  hold: 1s\n  patience: 60s\n  min_requests: 40\n"
    "placement: {devices: [{kind: h100, count: 1}]}\n"
    "replica: {engine: vllm, command: [serve, --port, \"{port}\"], api_key: none}\n";

// A leader that has no requests of its own, and what another gateway tells.
class RolloutOfAll {
 public:
  RolloutOfAll(TestLoop& loop, FakeMachine& machine) : gateway(loop, machine, std::string(kRollingOut)) {}
  ~RolloutOfAll() { gateway.rollouts->Stop(); }

  const Rollout* now() const { return gateway.rollouts->Find("chat-small"); }
  bool Is(RolloutState state) const { return now() != nullptr && now()->state == state; }
  // Since the rollout began.
  void Tell(TriesAt fresh, TriesAt old) {
    TriesByReplica& told = gateway.tries_elsewhere["chat-small"];
    for (const ReplicaStatus& replica : gateway.replicas())
      told["chat-small@" + replica.run] = replica.version == "v2" ? fresh : old;
  }

  Gateway gateway;
};

TEST(RolloutDriver, AVersionThatFailsAtOtherGatewaysIsRolledBack) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    RolloutOfAll all(loop, machine);
    EXPECT_TRUE((co_await all.gateway.rollouts->Start()).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return all.now() != nullptr && all.now()->open; }));
    all.Tell({.tries = 60, .failures = 30}, {.tries = 60});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return all.Is(RolloutState::kRolledBack); }));
    EXPECT_THAT(all.now()->why, HasSubstr("50.00 % of 60 tries fail against 0.00 % of 60"));
    co_await all.gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(RolloutDriver, IsShownAndObeysOrdersWhileItIsNotYetKnownWhatRuns) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    {
      RolloutOfAll before(loop, machine);
      EXPECT_TRUE((co_await before.gateway.rollouts->Start()).ok());
      EXPECT_TRUE(co_await Eventually(loop, [&] { return before.now() != nullptr && before.now()->open; }));
      co_await before.gateway.control->Close(true);
    }
    machine.list = absl::UnavailableError("the cluster manager does not answer");
    RolloutOfAll after(loop, machine);
    EXPECT_TRUE((co_await after.gateway.rollouts->Start()).ok());
    RolloutDriver* const driver = after.gateway.control->rollouts();
    EXPECT_NE(driver, nullptr);
    if (driver == nullptr) co_return;
    EXPECT_EQ(driver->Rows().size(), 1u);
    const absl::Status aborted = co_await driver->Abort("chat-small", "ada", "it is wrong");
    EXPECT_TRUE(aborted.ok()) << aborted;
    EXPECT_TRUE(after.Is(RolloutState::kAborted));
    machine.list = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      const std::vector<ReplicaStatus> replicas = after.gateway.replicas();
      return replicas.size() == 1 && replicas[0].version == "v1" && replicas[0].state == ReplicaState::kReady;
    }));
    co_await after.gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(RolloutDriver, AVersionThatServesOtherGatewaysWellIsPromoted) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    RolloutOfAll all(loop, machine);
    EXPECT_TRUE((co_await all.gateway.rollouts->Start()).ok());
    for (uint32_t step = 0; step < 2; ++step) {
      EXPECT_TRUE(co_await Eventually(
          loop, [&] { return all.now() != nullptr && all.now()->step == step && all.now()->open; }));
      const uint64_t tries = 50 * (step + 1);
      all.Tell({.tries = tries}, {.tries = tries});
    }
    EXPECT_TRUE(co_await Eventually(loop, [&] { return all.Is(RolloutState::kPromoted); }));
    EXPECT_THAT(all.now()->why, HasSubstr("over 50 requests")) << "of the last step";
    co_await all.gateway.control->Close(false);
    engine.Stop();
  });
}

}  // namespace
}  // namespace gateway::control
