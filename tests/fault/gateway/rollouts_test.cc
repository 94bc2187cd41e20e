// Rollouts of new versions of a model, with real engines: a good one is promoted, one that fails or is slow is rolled
// back, and one goes on after a restart.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/fault/gateway/scaling.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::ElementsAre;
using testing::HasSubstr;

std::string EngineWith(const std::vector<std::string>& flags) {
  std::string command =
      fmt::format("[\"{}\", --port, \"{{port}}\", --model, chat-small", TIDEGATE_ENGINE_BINARY);
  for (const std::string& flag : flags) command += fmt::format(", \"{}\"", flag);
  return command + "]";
}

// Bounds of speed that another program on the machine does not break.
constexpr std::string_view kAnySpeed = "ttft: 100, tokens_per_second: 0.01";

// A policy whose new version is started with these flags.
ScaledModel RollingOut(const std::vector<std::string>& flags, std::string_view hold = "1s",
                       std::string_view bounds = kAnySpeed) {
  return {
      .replicas = "{min: 1, max: 1}",
      .more = fmt::format("version: v1\nrollout:\n  version: v2\n  replica: {{engine: vllm, command: {}}}\n"
                          "  steps: [50, 100]\n  hold: {}\n  patience: 60s\n  min_requests: 40\n"
                          "  bounds: {{{}}}\n",
                          EngineWith(flags), hold, bounds)};
}

class RolloutTest {
 public:
  explicit RolloutTest(const ScaledModel& model, const std::string& scaling = {}) : scaled(model, scaling) {}
  ~RolloutTest() { EndTraffic(); }

  // Callers that ask one after the other, until EndTraffic().
  void Ask() {
    stop_ = false;
    for (int i = 0; i < 3; ++i) {
      callers_.emplace_back([this] {
        while (!stop_) {
          const int status = scaled.gateway.Ask(Chat({{"max_tokens", 4}, {"stream", true}})).status;
          (status == 200 ? answered : failed) += 1;
          Pause(milliseconds(5));  // leaves processor time to the control loop
        }
      });
    }
  }
  void EndTraffic() {
    stop_ = true;
    for (std::thread& caller : callers_) caller.join();
    callers_.clear();
  }
  Json Now() const {
    const Json all = scaled.Admin("/admin/v1/rollouts")["data"];
    return all.empty() ? Json() : all[0];
  }
  bool Becomes(const std::string& state, std::chrono::seconds patience = std::chrono::seconds(60)) const {
    return Within(patience, [&] {
      Pause(milliseconds(100));
      return Now().is_object() && Now()["state"] == state;
    });
  }
  // The versions of replicas that are there, in order.
  std::vector<std::string> Versions() const {
    std::vector<std::string> versions;
    const Json replicas = scaled.Replicas();
    for (const Json& replica : replicas)
      versions.push_back(replica["version"].is_string() ? replica["version"].get<std::string>() : "");
    std::ranges::sort(versions);
    return versions;
  }
  bool Serves(const std::string& version) const {
    return Within(std::chrono::seconds(30), [&] {
      Pause(milliseconds(50));
      return Versions() == std::vector<std::string>{version};
    });
  }
  std::vector<std::string> Recorded() const {
    std::vector<std::string> actions;
    for (const Record& record : scaled.Actions()) {
      if (record.action.starts_with("rollout.")) actions.push_back(record.action.substr(8));
    }
    return actions;
  }

  Scaled scaled;
  std::atomic<int> answered = 0;
  std::atomic<int> failed = 0;

 private:
  std::vector<std::thread> callers_;
  std::atomic<bool> stop_ = false;
};

TEST(Rollouts, AGoodVersionIsPromotedStepByStep) {
  RolloutTest rollout(RollingOut({"--preset", "instant"}));
  ASSERT_TRUE(Within(std::chrono::seconds(30), [&] { return rollout.Now().is_object(); }));
  rollout.Ask();
  ASSERT_TRUE(rollout.Becomes("promoted")) << rollout.Now();
  EXPECT_TRUE(rollout.Serves("v2")) << rollout.scaled.Replicas();
  rollout.EndTraffic();
  EXPECT_EQ(rollout.failed, 0);
  EXPECT_GT(rollout.answered, 80);
  EXPECT_EQ(rollout.scaled.gateway.Ask(Chat({{"max_tokens", 2}})).status, 200);
  EXPECT_THAT(rollout.Recorded(), ElementsAre("begin", "open", "next", "open", "promote"));
}

TEST(Rollouts, AVersionThatFailsIsRolledBack) {
  RolloutTest rollout(RollingOut({"--preset", "instant", "--fault", "500"}));
  rollout.Ask();
  ASSERT_TRUE(rollout.Becomes("rolled_back")) << rollout.Now();
  EXPECT_THAT(rollout.Now()["reason"].get<std::string>(), HasSubstr("tries fail against"));
  EXPECT_TRUE(rollout.Serves("v1")) << rollout.scaled.Replicas();
  rollout.EndTraffic();
  EXPECT_EQ(rollout.failed, 0) << "what fails there is tried again at the old version";
  EXPECT_EQ(rollout.Recorded().back(), "roll_back");
}

TEST(Rollouts, ASlowVersionIsRolledBack) {
  RolloutTest rollout(RollingOut({"--preset", "demo", "--load-time", "0s", "--step-base", "200ms"}, "1s",
                                 "ttft: 4, tokens_per_second: 0.2"));
  rollout.Ask();
  ASSERT_TRUE(rollout.Becomes("rolled_back")) << rollout.Now();
  EXPECT_THAT(rollout.Now()["reason"].get<std::string>(), HasSubstr("the old version's"));
  EXPECT_TRUE(rollout.Serves("v1")) << rollout.scaled.Replicas();
}

TEST(Rollouts, AVersionWhoseAnswersHelpCallersLessIsRolledBack) {
  RolloutTest rollout(
      RollingOut({"--preset", "instant"}, "20s", fmt::format("{}, feedback: {{name: helpful}}", kAnySpeed)));
  std::map<std::string, std::string> versions;  // of replicas
  const auto version_of = [&](const std::string& id) {
    if (!versions.contains(id)) {
      const Json replicas = rollout.scaled.Replicas();
      for (const Json& replica : replicas) versions[replica["id"]] = replica["version"];
    }
    return versions[id];
  };
  ASSERT_TRUE(Within(std::chrono::seconds(60), [&] {
    const Answer answer = rollout.scaled.gateway.Ask(Chat({{"max_tokens", 2}}));
    const Json judged = {{"request_id", answer.header("x-request-id")},
                         {"name", "helpful"},
                         {"value", version_of(answer.header("x-tidegate-replica")) == "v1"}};
    EXPECT_EQ(rollout.scaled.gateway.Ask(Post("/v1/feedback", judged.dump())).status, 200);
    return rollout.Now().is_object() && rollout.Now()["state"] == "rolled_back";
  })) << rollout.Now();
  EXPECT_THAT(rollout.Now()["reason"].get<std::string>(), HasSubstr("helpful is true of 0.0 % of"));
  EXPECT_TRUE(rollout.Serves("v1")) << rollout.scaled.Replicas();
}

TEST(Rollouts, AVersionThatDoesNotStartIsRolledBack) {
  RolloutTest rollout(RollingOut({"--no-such-flag"}));
  ASSERT_TRUE(rollout.Becomes("rolled_back")) << rollout.Now();
  EXPECT_THAT(rollout.Now()["reason"].get<std::string>(),
              HasSubstr("replicas of the new version have failed"));
  EXPECT_EQ(rollout.scaled.gateway.Ask(Chat({{"max_tokens", 2}})).status, 200);
}

TEST(Rollouts, GoOnAfterAKillOfTheGatewayAndObeyOperators) {
  ScaledModel model = RollingOut({"--preset", "instant"});
  RolloutTest rollout(model, "on_exit: keep");
  const auto post = [&](const std::string& verb) {
    return rollout.scaled.gateway.AskAdmin(
        Post("/admin/v1/rollouts/chat-small:" + verb, "{}", Scaled::Credentials()));
  };
  ASSERT_TRUE(Within(std::chrono::seconds(30), [&] {
    Pause(milliseconds(50));
    return rollout.Now().is_object() && rollout.Now()["percent"] == 50.0;
  })) << rollout.Now();
  EXPECT_EQ(post("restart").status, 409);
  rollout.scaled.gateway.Restart();  // kill -9
  ASSERT_TRUE(rollout.Becomes("running"));
  EXPECT_EQ(rollout.Now()["percent"], 50.0) << "as before";
  EXPECT_THAT(rollout.Versions(), ElementsAre("v1", "v2"));

  const Answer aborted = post("abort");
  EXPECT_EQ(aborted.status, 200) << aborted.body;
  EXPECT_TRUE(rollout.Serves("v1"));
  EXPECT_EQ(post("promote").status, 409);
  EXPECT_EQ(post("restart").status, 200);
  EXPECT_TRUE(Within(std::chrono::seconds(30), [&] { return rollout.Versions().size() == 2; }));
  const Answer promoted = post("promote");
  EXPECT_EQ(promoted.status, 200) << promoted.body;
  EXPECT_TRUE(rollout.Serves("v2")) << rollout.scaled.Replicas();
  std::vector<std::string> moves = rollout.Recorded();
  std::erase(moves, "open");
  EXPECT_THAT(moves, ElementsAre("begin", "abort", "begin", "promote"));

  // What was promoted becomes the policy's own: the running replica stays.
  const std::string id = rollout.scaled.Replicas()[0]["id"];
  model.more = "version: v2\n";
  rollout.scaled.WritePolicy(model);
  rollout.scaled.gateway.Reload();
  Pause(std::chrono::seconds(2));
  const Json after = rollout.scaled.Replicas();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(after[0]["id"], id);
  EXPECT_EQ(rollout.scaled.gateway.Ask(Chat({{"max_tokens", 2}})).status, 200);
  rollout.scaled.KeepNothing();
}

}  // namespace
}  // namespace tests
