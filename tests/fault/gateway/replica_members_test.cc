// Replicas of two members, real engines that join each other over several nodes: the leader serves, and when
// one of them dies, whoever it is and whoever looks, the whole is replaced and the reason names it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kLong = JobCommands::kPatience;

// Four nodes below two leaves, of two devices each, all on this machine.
constexpr std::string_view kTwoLeaves = R"(devices: [{name: gpu, memory: 16GiB}]
types: [{name: box, cpu: 64, memory: 512GiB, device: gpu, count: 2}]
nodes: [{name: "n{1..4}", type: box, domain: "leaf-{1..2}"}]
fabric:
  levels: [leaf, all]
  domains: [{name: "leaf-{1..2}", level: leaf, parent: all}, {name: all, level: all}]
)";

class ReplicaMembers : public testing::Test {
 protected:
  ReplicaMembers() { std::ofstream(folder_ / "cluster.yaml") << kTwoLeaves; }

  static ScaledModel Model(const std::string& worker_command = {}, const std::string& hold = "60s") {
    ScaledModel model;
    model.replicas = "{min: 1, max: 1}";
    model.more = fmt::format(
        "cold_start: {{hold: {}}}\n"
        "placement: {{members: 2, devices: [{{kind: gpu, count: 2}}], "
        "topology: {{level: leaf, required: true}}}}\n",
        hold);
    model.flags = {"--preset", "instant", "--workers", "1", "--workers-at", "{leader_port}"};
    model.replica = fmt::format(
        "worker_command: {}",
        worker_command.empty()
            ? fmt::format("[\"{}\", --preset, instant, --worker-of, \"{{leader}}:{{leader_port}}\"]",
                          TIDEGATE_ENGINE_BINARY)
            : worker_command);
    return model;
  }
  std::string Section() const { return fmt::format("cluster: {}", folder_ / "cluster.yaml"); }

  // The detail of the stop of a replica; empty: the ledger has none.
  static std::string StopOf(const Scaled& scaled, const std::string& replica) {
    for (const auto& action : scaled.Actions()) {
      if (action.action == "replica.stop" && action.subject == replica) return action.detail;
    }
    return {};
  }
  static bool IsReplaced(const Scaled& scaled, const std::string& replica) {
    return Within(kLong, [&] {
      const Json all = scaled.Replicas();
      Pause(milliseconds(20));
      return all.size() == 1 && all[0]["state"] == "ready" && all[0]["id"] != replica;
    });
  }

  TempDir folder_;
};

TEST_F(ReplicaMembers, ShareALeafAndAKilledWorkerEndsTheWholeReplica) {
  Scaled scaled(Model(), Section());
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const std::string id = before["id"];
  ASSERT_EQ(before["members"].size(), 2u) << before;
  std::set<std::string> nodes;
  for (const Json& member : before["members"]) {
    nodes.insert(member["node"]);
    EXPECT_EQ(member["devices"].size(), 2u) << member;
    EXPECT_EQ(member["state"], "running") << member;
  }
  EXPECT_THAT(nodes, testing::AnyOf(testing::ElementsAre("n1", "n2"), testing::ElementsAre("n3", "n4")));
  EXPECT_EQ(before["node"], before["members"][0]["node"]) << "its leader's";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);

  const JobCommands commands(scaled.gateway);
  for (const Json& node : Json::parse(commands.Run({"nodes", "--json"}).out)) {
    const bool ours = nodes.contains(node["name"]);
    for (const Json& device : node["each"])
      EXPECT_EQ(device["held_by"], ours ? Json::array({id}) : Json::array()) << node;
  }

  const std::string worker = before["members"][1]["run"];
  const std::string on = before["members"][1]["node"];
  const pid_t pid = PidOf(worker);
  ASSERT_GT(pid, 0) << worker;
  kill(pid, SIGKILL);
  ASSERT_TRUE(IsReplaced(scaled, id)) << scaled.Replicas();
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  const std::string why = fmt::format("member 1 on {} was ended by signal 9", on);
  EXPECT_THAT(StopOf(scaled, id), HasSubstr(why));
  EXPECT_EQ(PidOf(id), 0) << "the leader has ended, too";
  EXPECT_THAT(scaled.gateway.process().Output(), AllOf(HasSubstr("replica failed"), HasSubstr(why)));
  EXPECT_EQ(scaled.Names("replica.launch"), 2) << scaled.gateway.process().Output();
  EXPECT_TRUE(scaled.gateway.Settles());
}

TEST_F(ReplicaMembers, AKilledLeaderTakesItsWorkerWithIt) {
  const Scaled scaled(Model(), Section());
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const std::string id = before["id"];
  const pid_t pid = PidOf(id);
  ASSERT_GT(pid, 0);
  kill(pid, SIGKILL);
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}));
  EXPECT_EQ(answer.status, 200) << answer.body;
  ASSERT_TRUE(IsReplaced(scaled, id)) << scaled.Replicas();
  EXPECT_THAT(StopOf(scaled, id), HasSubstr(fmt::format("member 0 on {} was ended by signal 9",
                                                        before["members"][0]["node"].get<std::string>())));
  EXPECT_EQ(PidOf(before["members"][1]["run"]), 0);
}

TEST_F(ReplicaMembers, AreAdoptedOrReplacedTogetherAfterAGatewayKill) {
  Scaled scaled(Model(), Section());
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const std::string id = before["id"];
  const std::string worker = before["members"][1]["run"];
  const pid_t pid = PidOf(worker);
  ASSERT_GT(pid, 0);
  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const Json after = scaled.Replicas()[0];
  EXPECT_EQ(after["id"], id);
  EXPECT_EQ(after["address"], before["address"]);
  EXPECT_EQ(after["members"], before["members"]);
  EXPECT_TRUE(after["adopted"]);
  EXPECT_EQ(PidOf(worker), pid);
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  EXPECT_EQ(scaled.Names("replica.adopt"), 1);
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);

  // One dies while no gateway looks.
  scaled.gateway.Kill();
  kill(pid, SIGKILL);
  ASSERT_TRUE(Within(kLong, [&] { return PidOf(id) == 0; })) << "its leader ends with it";
  scaled.gateway.Start();
  ASSERT_TRUE(IsReplaced(scaled, id)) << scaled.Replicas();
  const Json next = scaled.Replicas()[0];
  EXPECT_FALSE(next["adopted"]);
  EXPECT_EQ(next["members"].size(), 2u);
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
}

TEST_F(ReplicaMembers, WaitingRequestsGetTheReasonWhenMembersNeverJoin) {
  const Scaled scaled(Model("[/bin/false]", "5s"), Section());
  const Answer refused = scaled.gateway.Ask(Chat({{"max_tokens", 3}}));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "no_replica_started");
  EXPECT_THAT(refused.body, AllOf(HasSubstr("member 1 on n"), HasSubstr("exited with 1")));
  ASSERT_TRUE(Within(kLong, [&] { return scaled.Scaling()["trouble"].is_string(); }));
  EXPECT_THAT(scaled.Scaling()["trouble"].get<std::string>(), HasSubstr("member 1 on n"));
  EXPECT_EQ(scaled.Names("replica.ready"), 0) << "its leader alone is never ready";
}

}  // namespace
}  // namespace tests
