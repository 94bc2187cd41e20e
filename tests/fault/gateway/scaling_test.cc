// The loop closed, through the real gateway and real engines as processes: load starts replicas, idleness
// stops them, and what dies in between is found again.
#include "tests/fault/gateway/scaling.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "gateway/store/sqlite.h"

namespace tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Scaling, ARequestToAModelAtZeroIsHeldUntilItsReplicaIsReadyAndIdlenessStopsIt) {
  const Scaled scaled({});
  EXPECT_EQ(scaled.Replicas().size(), 0u);
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: first\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto close = scaled.gateway.CloseOf("first");
  EXPECT_GT(close.queue_us, 0) << "it waited for the replica";
  const int64_t lag_us = scaled.Actions().at(0).time_us - close.open_time_us;
  RecordProperty("request_to_launch_us", static_cast<int>(lag_us));
  EXPECT_GE(lag_us, 0) << "the request caused the launch";
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  EXPECT_EQ(scaled.Replicas()[0]["id"], close.replica);
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(scaled.Becomes(0, "ready")) << scaled.Replicas();
  std::vector<std::string> names;
  for (const auto& action : scaled.Actions()) {
    names.push_back(action.action);
    EXPECT_EQ(action.actor, "control");
    EXPECT_EQ(action.subject, close.replica);
    EXPECT_THAT(action.detail, HasSubstr("\"reason\":"));
  }
  EXPECT_THAT(names, ElementsAre("replica.launch", "replica.ready", "replica.drain", "replica.stop"));
  EXPECT_TRUE(scaled.gateway.Settles());
}

TEST(Scaling, ReplicasAreAdoptedAfterAKillAndNeverDoubled) {
  Scaled scaled({.replicas = "{min: 1, max: 1}"});
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  EXPECT_FALSE(before["adopted"]);
  for (int kill = 0; kill < 2; ++kill) {
    scaled.gateway.Restart();
    ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
    const Json after = scaled.Replicas()[0];
    EXPECT_EQ(after["id"], before["id"]);
    EXPECT_EQ(after["address"], before["address"]);
    EXPECT_TRUE(after["adopted"]);
    EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  }
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  EXPECT_EQ(scaled.Names("replica.adopt"), 2);
}

TEST(Scaling, ClientsAndOperatorsGetTheReasonWhenAReplicaCanNeverStart) {
  struct Case {
    std::string what;
    ScaledModel model;
    std::string why;
  };
  const std::string hold = "cold_start: {hold: 1s}\n";
  for (const Case& c :
       {Case{"no such program", {.more = hold, .command = "[/nonexistent/serve]"}, "/nonexistent/serve"},
        Case{"it ends at once", {.more = hold, .command = "[/bin/false]"}, "it exited with 1"},
        Case{"it never answers",
             {.more = hold, .command = "[/bin/sleep, \"1000\"]", .replica = "ready: {timeout: 300ms}"},
             "not ready within 300ms"},
        Case{"more than there is",
             {.more = hold + "placement: {devices: [{kind: h100, count: 8}]}\n"},
             "8 h100"}}) {
    const Scaled scaled(
        c.model, "cluster: [{kind: h100, count: 4}]",
        {.replicas = {},
         .models = "  - {name: other, endpoints: [{url: http://127.0.0.1:9, engine: vllm}]}\n"});
    const Answer refused = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: held\r\n"));
    EXPECT_EQ(refused.status, 503) << c.what;
    EXPECT_EQ(refused.code(), "no_replica_started") << c.what << refused.body;
    EXPECT_THAT(refused.body, HasSubstr(c.why)) << c.what;
    EXPECT_GE(scaled.gateway.CloseOf("held").queue_us, 900'000) << c.what;
    const Answer ready = scaled.gateway.AskAdmin(Get("/readyz"));
    EXPECT_EQ(ready.status, 200) << "the gateway takes what it can serve";
    EXPECT_THAT(ready.body, HasSubstr("model:chat-small")) << c.what;
    EXPECT_THAT(scaled.Scaling()["trouble"].get<std::string>(), HasSubstr(c.why)) << c.what;
  }
}

TEST(Scaling, WhenTheGatewayEndsItsReplicasDoUnlessTheyAreToBeKept) {
  for (const bool keep : {false, true}) {
    Scaled scaled({.replicas = "{min: 1, max: 1}"}, keep ? "on_exit: keep" : "on_exit: stop");
    ASSERT_TRUE(scaled.Becomes(1, "ready"));
    const std::string id = scaled.Replicas()[0]["id"];
    EXPECT_EQ(scaled.gateway.Stop(std::chrono::seconds(20)), 0);
    scaled.gateway.Start();
    ASSERT_TRUE(scaled.Becomes(1, "ready"));
    EXPECT_EQ(scaled.Replicas()[0]["id"] == id, keep);
    EXPECT_EQ(scaled.Replicas()[0]["adopted"], keep);
    scaled.KeepNothing();
  }
}

TEST(Scaling, AnAdoptedReplicaKeepsItsKeyAndOneWithALostKeyIsReplaced) {
  Scaled scaled({.replicas = "{min: 1, max: 1}"}, "on_exit: keep");
  const auto chat = [&] { return scaled.gateway.Ask(Chat({{"max_tokens", 1}})).status; };
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  const std::string id = scaled.Replicas()[0]["id"];
  EXPECT_EQ(chat(), 200);
  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  EXPECT_EQ(scaled.Replicas()[0]["id"], id);
  EXPECT_EQ(chat(), 200);

  EXPECT_EQ(scaled.gateway.Stop(std::chrono::seconds(20)), 0);
  {
    const auto db = gateway::sqlite::Database::Open(scaled.gateway.state_dir() + "/state.db",
                                                    gateway::sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Execute("DELETE FROM objects WHERE kind = 'secret'").ok());
  }
  scaled.gateway.Start();
  EXPECT_TRUE(Within(std::chrono::seconds(40), [&] {
    const Json all = scaled.Replicas();
    return all.size() == 1 && all[0]["state"] == "ready" && all[0]["id"] != id;
  })) << scaled.Replicas().dump();
  EXPECT_EQ(chat(), 200);
  scaled.KeepNothing();
}

TEST(Scaling, AGatewayStoppedDuringItsStartLeavesNoReplica) {
  const TempDir folder;
  Scaled scaled({.replicas = "{min: 1, max: 1}"}, "on_exit: stop");
  for (const int delay : {30, 60, 120, 250, 500}) {
    if (delay > 30) scaled.gateway.Start();
    ASSERT_TRUE(scaled.Becomes(1, "ready"));
    const std::string address = scaled.Replicas()[0]["address"];
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
    scaled.gateway.Kill();
    ASSERT_TRUE(RawClient(port).connected());
    ChildProcess starting({TIDEGATE_BINARY, "serve", "-c", scaled.gateway.config_path()}, folder / "out");
    Pause(milliseconds(delay));
    starting.Signal(SIGTERM);
    const std::optional<int> status = starting.Wait(std::chrono::seconds(40));
    if (status == SIGTERM) continue;  // before its main() had begun
    EXPECT_EQ(status, 0) << delay << starting.Output();
    EXPECT_FALSE(RawClient(port).connected()) << delay << ": it still serves\n" << starting.Output();
  }
}

TEST(Scaling, AChangedPolicyAppliesFromTheNextReload) {
  Scaled scaled({.replicas = "{min: 1, max: 1}"});
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  scaled.WritePolicy({.replicas = "{min: 2, max: 2}"});
  scaled.gateway.Reload();
  EXPECT_TRUE(scaled.Becomes(2, "ready")) << scaled.Replicas();
  scaled.WritePolicy({.replicas = "{min: 3, max: 2}"});
  scaled.gateway.Reload();
  EXPECT_TRUE(scaled.Becomes(2, "ready")) << "what is not valid changes nothing";
}

TEST(Scaling, AHeldStreamGetsHeartbeatsAndThenItsAnswer) {
  const Scaled scaled({.more = "cold_start: {hold: 20s, heartbeat: 50ms}\n",
                       .flags = {"--preset", "demo", "--load-time", "1s"}});
  RawClient client = scaled.gateway.Connect();
  client.Send(Chat({{"max_tokens", 3}, {"stream", true}}));
  EXPECT_EQ(client.ReadHead().status, 200);
  EXPECT_EQ(client.ReadEvent(), ": waiting");
  EXPECT_EQ(client.ReadEvent(), ": waiting");
  std::string last;
  while (const auto event = client.ReadEvent()) last = *event;
  EXPECT_EQ(last, "data: [DONE]");
}

// Of the process that was told to listen there.
pid_t PidAtPort(const std::string& port) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = ReadFile(entry.path() / "cmdline");
    if (command.starts_with("tidegate-run")) continue;  // the engine's wrapper, which names its command
    if (command.find(std::string("--port") + '\0' + port + '\0') != std::string::npos) return std::stoi(name);
  }
  return 0;
}

TEST(Scaling, ARequestToADeadReplicaWaitsForAnother) {
  const Scaled scaled({.replicas = "{min: 1, max: 1}"});
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  const Json before = scaled.Replicas()[0];
  const std::string address = before["address"];
  const pid_t pid = PidAtPort(address.substr(address.rfind(':') + 1));
  ASSERT_GT(pid, 0) << address;
  kill(pid, SIGKILL);
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}));
  EXPECT_EQ(answer.status, 200) << answer.body;
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  EXPECT_NE(scaled.Replicas()[0]["id"], before["id"]);
  for (const auto& action : scaled.Actions()) {
    if (action.action == "replica.stop") EXPECT_THAT(action.detail, HasSubstr("ended by signal 9"));
  }
  EXPECT_EQ(scaled.Names("replica.stop"), 1);
}

}  // namespace
}  // namespace tests
