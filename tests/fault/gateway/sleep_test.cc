// Replicas that sleep rather than end, through the real gateway and real engines: their devices go to others,
// they wake on the same ones, and what fails becomes a cold start.
#include <gmock/gmock.h>
#include <signal.h>

#include <array>
#include <optional>
#include <string>

#include "tests/fault/gateway/job_commands.h"
#include "tests/fault/gateway/scaling.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kIdle = "{sleep_after: 1s, stop_after: 1h, host_memory: 1GiB, min_awake: 0s}";
const std::vector<std::string> kSleeps = {"--preset", "instant", "--enable-sleep-mode", "--move-time",
                                          "30ms"};

ScaledModel Sleeping(std::string idle = kIdle) {
  return {.replicas = "{min: 0, max: 1}",
          .idle = std::move(idle),
          .more = "placement: {devices: [{kind: h100, count: 1}]}\n",
          .flags = kSleeps};
}

constexpr const char* kOneDevice = "cluster: [{kind: h100, count: 1}]";

std::vector<std::string> NamesOf(const Scaled& scaled) {
  std::vector<std::string> names;
  for (const auto& action : scaled.Actions()) names.push_back(action.action);
  return names;
}

TEST(Sleep, AnIdleReplicaGivesItsDevicesBackAndWakesOnThemForTheNextRequest) {
  const Scaled scaled(Sleeping(), kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: first\r\n")).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep")) << scaled.Replicas();
  const Json asleep = scaled.Replicas()[0];
  EXPECT_EQ(asleep["members"][0]["devices"], Json::array()) << "others may have them";
  EXPECT_EQ(scaled.Scaling()["asleep"], 1);
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: second\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(scaled.gateway.CloseOf("second").replica, asleep["id"].get<std::string>()) << "the same process";
  ASSERT_TRUE(scaled.Becomes(1, "asleep"));
  EXPECT_THAT(NamesOf(scaled),
              ElementsAre("replica.launch", "replica.ready", "replica.drain", "replica.sleep", "replica.wake",
                          "replica.ready", "replica.drain", "replica.sleep"));
  EXPECT_EQ(scaled.Scaling()["wakes"][0]["starts"], 1);
  EXPECT_EQ(scaled.Scaling()["cold_starts"][0]["starts"], 1) << "a wake is none";
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] { return scaled.Scaling()["lead_time_ms"].is_number(); }));
}

TEST(Sleep, OneThatSleptLongEnoughEnds) {
  const Scaled scaled(Sleeping("{sleep_after: 0s, stop_after: 1s, level: 2, min_awake: 0s}"), kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(0, "asleep")) << scaled.Replicas();
  ASSERT_TRUE(Within(std::chrono::seconds(10), [&] { return scaled.Replicas().empty(); }));
  EXPECT_EQ(scaled.Names("replica.sleep"), 1);
  EXPECT_EQ(scaled.Names("replica.stop"), 1);
}

TEST(Sleep, WithoutItsWeightsItLoadsThemAgainBeforeItServes) {
  ScaledModel model = Sleeping("{sleep_after: 1s, level: 2, min_awake: 0s}");
  model.flags.insert(model.flags.end(), {"--reload-time", "200ms"});
  const Scaled scaled(model, kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep")) << scaled.Replicas();
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: woken\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_GE(scaled.gateway.CloseOf("woken").queue_us, 200'000) << "the engine needs that long";
}

TEST(Sleep, AnEngineThatDoesNotFallAsleepEndsAndSaysWhy) {
  ScaledModel model = Sleeping();
  model.flags = {"--preset", "instant"};  // started without sleep
  const Scaled scaled(model, kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return scaled.Replicas().empty(); }));
  bool told = false;
  for (const auto& action : scaled.Actions())
    told |= action.action == "replica.stop" &&
            action.detail.find("did not fall asleep: /sleep answers 404") != std::string::npos;
  EXPECT_TRUE(told);
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200) << "a cold start serves the next";
}

TEST(Sleep, AWakeThatTakesTooLongBecomesAColdStart) {
  ScaledModel model = Sleeping("{sleep_after: 1s, host_memory: 1GiB, min_awake: 0s, wake_timeout: 1s}");
  model.flags = {"--preset", "instant", "--enable-sleep-mode", "--move-time", "3s"};
  const Scaled scaled(model, kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep")) << scaled.Replicas();
  const std::string slept = scaled.Replicas()[0]["id"];
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: later\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(scaled.gateway.CloseOf("later").replica, slept);
  EXPECT_EQ(scaled.Names("replica.launch"), 2);
}

TEST(Sleep, ASleeperThatDiesIsForgottenAndItsModelStillServes) {
  const Scaled scaled(Sleeping(), kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep"));
  const std::string id = scaled.Replicas()[0]["id"];
  const pid_t engine = PidOf(id);
  ASSERT_GT(engine, 0);
  kill(engine, SIGKILL);
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return scaled.Replicas().empty(); }));
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
}

TEST(Sleep, ARestartedGatewayKnowsItsSleepersAndWakesThem) {
  Scaled scaled(Sleeping(), std::string(kOneDevice) + ", on_exit: keep");
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep"));
  const std::string id = scaled.Replicas()[0]["id"];
  scaled.gateway.Restart();  // kill -9
  ASSERT_TRUE(scaled.Becomes(1, "asleep")) << scaled.Replicas();
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] { return scaled.Names("replica.adopt") == 1; }));
  EXPECT_EQ(scaled.Names("replica.sleep"), 1) << "it fell asleep once";
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: after\r\n")).status, 200);
  EXPECT_EQ(scaled.gateway.CloseOf("after").replica, id);
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  scaled.KeepNothing();
}

TEST(Sleep, CallersCannotReachTheEnginesSleep) {
  const Scaled scaled(Sleeping(), kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  for (const char* const path :
       {"/sleep?level=1", "/wake_up", "/v1/sleep", "/collective_rpc", "/is_sleeping"})
    EXPECT_EQ(scaled.gateway.Ask(Post(path, "{}")).status, 404) << path;
}

constexpr std::array kThree = {"chat-small", "two", "three"};

// Three models that share one device.
class SharedDevice {
 public:
  SharedDevice() {
    std::string models;
    for (const std::string name : kThree) {
      if (name != kThree.front()) models += fmt::format("  - {{name: {}}}\n", name);
      std::ofstream(folder_ / (name + ".yaml")) << fmt::format(
          "model: {0}\nreplicas: {{min: 0, max: 1}}\nscaling: {{policy: demand, window: 5s, hold: 1s}}\n"
          "idle: {{sleep_after: 5m, host_memory: 1GiB, min_awake: 300ms}}\n"
          "placement: {{devices: [{{kind: h100, count: 1}}]}}\n"
          "replica: {{engine: vllm, command: [\"{1}\", --port, \"{{port}}\", --model, {0}, --preset, "
          "instant, "
          "--enable-sleep-mode, --move-time, 20ms]}}\n",
          name, TIDEGATE_ENGINE_BINARY);
    }
    std::ofstream(folder_ / "key") << kScalingAdminKey;
    chmod((folder_ / "key").c_str(), 0600);
    GatewayConfig config;
    config.models = models;
    config.sections = fmt::format(
        "admin: {{bootstrap_key: \"file:{0}/key\"}}\n"
        "scaling: {{policies: [{0}/chat-small.yaml, {0}/two.yaml, {0}/three.yaml], ports: {1}, "
        "cluster: [{{kind: h100, count: 1}}], runs: {{same_user: true}}}}\n",
        folder_.path(), ports_.text());
    gateway.emplace(config);
  }
  ~SharedDevice() { gateway->Stop(std::chrono::seconds(30)); }
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  int Ask(const std::string& model) {
    return gateway->Ask(Chat({{"model", model}, {"max_tokens", 2}})).status;
  }
  size_t Count(const std::string& state) {
    const Answer answer = gateway->AskAdmin(Get("/admin/v1/replicas", Scaled::Credentials()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    size_t found = 0;
    const Json replicas = answer.json()["data"];
    for (const Json& replica : replicas) found += replica["state"] == state ? 1 : 0;
    return found;
  }
  int Names(std::string_view action) {
    int count = 0;
    for (const auto& record : gateway->Records())
      count += record.kind == gateway::ledger::Kind::kAction && record.action == action ? 1 : 0;
    return count;
  }

 private:
  TempDir folder_;
  OwnPorts ports_;

 public:
  std::optional<GatewayProcess> gateway;
};

TEST(Sleep, ThreeModelsOfOneDeviceTakeTurnsWithoutAColdStartEach) {
  SharedDevice shared;
  for (const char* const model : kThree) EXPECT_EQ(shared.Ask(model), 200) << model;
  EXPECT_EQ(shared.Names("replica.launch"), 3);
  for (int round = 0; round < 2; ++round) {
    for (const char* const model : kThree) EXPECT_EQ(shared.Ask(model), 200) << model;
  }
  EXPECT_EQ(shared.Names("replica.launch"), 3) << "each was started once, and only woke since";
  EXPECT_EQ(shared.Count("ready"), 1u) << "the one that answered last";
  const int wakes = shared.Names("replica.wake");
  EXPECT_GE(wakes, 5);
  Pause(milliseconds(1500));
  EXPECT_EQ(shared.Names("replica.wake"), wakes) << "who has no request wakes for none";
  EXPECT_TRUE(shared.gateway->Settles());
}

TEST(Sleep, TrainingRunsOnTheDevicesOfASleeperAndMakesRoomWhenItWakes) {
  ScaledModel model = Sleeping();
  const Scaled scaled(model, kOneDevice);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(1, "asleep"));
  const JobCommands jobs(scaled.gateway);
  const std::string id = jobs.Submit(
      "name: train\nwork: training\ndevices: [{kind: h100, count: 1}]\n"
      "command: [sh, -c, \"trap 'exit 0' TERM USR1; while :; do sleep 0.1; done\"]\n");
  ASSERT_TRUE(jobs.Comes(id, "running")) << jobs.Explain(id);
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  EXPECT_EQ(scaled.Names("job.preempt"), 1);
  EXPECT_TRUE(jobs.Comes(id, "running", 2))
      << "it goes on when the replica sleeps again: " << jobs.Explain(id);
  EXPECT_TRUE(jobs.CancelAll());
}

}  // namespace
}  // namespace tests
