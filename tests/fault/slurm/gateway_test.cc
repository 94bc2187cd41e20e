// The whole loop through a real Slurm: a request that nobody can serve yet starts a replica as a batch job,
// on devices of a node, and is answered by it; a gateway that was killed takes over what runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/fault/gateway/scaling.h"
#include "tests/fault/slurm/slurm_world.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::HasSubstr;

// All nodes are this machine.
pid_t EngineOf(const std::string& run) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!ReadFile(entry.path() / "cmdline").starts_with(TIDEGATE_ENGINE_BINARY)) continue;
    if (ReadFile(entry.path() / "environ").find(fmt::format("SLURM_JOB_NAME={}{}", run, '\0')) !=
        std::string::npos)
      return std::stoi(name);
  }
  return 0;
}

class SlurmGateway : public SlurmWorld {};

TEST_F(SlurmGateway, AReplicaIsABatchJobThatAKilledGatewayTakesOver) {
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 2}]}\n";
  model.replicas = "{min: 1, max: 2}";
  Scaled scaled(model, Section());
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: first\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  const std::string running = Jobs("R");
  EXPECT_THAT(running, HasSubstr("gpu:h100:2"));

  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  EXPECT_EQ(Jobs("R"), running) << "neither doubled nor lost";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_TRUE(scaled.gateway.Settles());

  std::string text = ReadFile(scaled.gateway.config_path());
  text.replace(text.find("partition: main"), 15, "partition: scavenge");
  std::ofstream(scaled.gateway.config_path()) << text;
  scaled.gateway.Reload();
  EXPECT_EQ(scaled.gateway.Metric("tidegate_config_reloads_total{result=\"refused\"}"), 1)
      << "a reload that would be without effect is not applied";
}

TEST_F(SlurmGateway, AReplicaOfTwoMembersIsTwoBatchJobsUnderOneSwitchAndIsReplacedWhole) {
  std::ofstream(folder_ / "topology.conf") << "SwitchName=leaf1 Nodes=node[1,3]\n"
                                              "SwitchName=leaf2 Nodes=node[2,4]\n"
                                              "SwitchName=spine Switches=leaf[1-2]\n";
  ScaledModel model;
  model.replicas = "{min: 1, max: 1}";
  model.more =
      "placement: {members: 2, devices: [{kind: h100, count: 8}], topology: {level: leaf, required: true}}\n";
  model.flags = {"--preset", "instant", "--workers", "1", "--workers-at", "{leader_port}"};
  model.replica =
      fmt::format("worker_command: [\"{}\", --preset, instant, --worker-of, \"{{leader}}:{{leader_port}}\"]",
                  TIDEGATE_ENGINE_BINARY);
  Scaled scaled(model, Section("keep", fmt::format(", topology: {}", folder_ / "topology.conf")));
  constexpr milliseconds kLong{60'000};
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const std::string id = before["id"];
  ASSERT_EQ(before["members"].size(), 2u) << before;
  std::set<std::string> nodes;
  for (const Json& member : before["members"]) nodes.insert(member["node"].get<std::string>());
  EXPECT_THAT(nodes,
              testing::AnyOf(testing::ElementsAre("node1", "node3"), testing::ElementsAre("node2", "node4")));
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  const std::string running = Jobs("R");
  EXPECT_EQ(std::ranges::count(running, '\n'), 1) << running;

  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  EXPECT_EQ(Jobs("R"), running) << "both are taken over";
  EXPECT_EQ(scaled.Replicas()[0]["id"], id);

  const std::string worker = before["members"][1]["run"];
  const pid_t pid = EngineOf(worker);
  ASSERT_GT(pid, 0) << worker;
  kill(pid, SIGKILL);
  ASSERT_TRUE(Within(kLong, [&] {
    const Json all = scaled.Replicas();
    Pause(milliseconds(50));
    return all.size() == 1 && all[0]["id"] != id && all[0]["state"] == "ready";
  })) << scaled.Replicas();
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  std::string why;
  for (const auto& action : scaled.Actions()) {
    if (action.action == "replica.stop" && action.subject == id) why = action.detail;
  }
  // The leader ends with 3 as soon as its peer is gone, and Slurm may tell of that first.
  EXPECT_THAT(why, testing::AnyOf(HasSubstr(fmt::format("member 1 on {}",
                                                        before["members"][1]["node"].get<std::string>())),
                                  HasSubstr("exited with 3")));
  EXPECT_TRUE(scaled.gateway.Settles());
  scaled.KeepNothing();
}

TEST_F(SlurmGateway, AGangThatAsksForOneLeafStandsUnderOneSwitch) {
  std::ofstream(folder_ / "topology.conf") << "SwitchName=leaf1 Nodes=node[1,3]\n"
                                              "SwitchName=leaf2 Nodes=node[2,4]\n"
                                              "SwitchName=spine Switches=leaf[1-2]\n";
  cluster_->Batch({"--nodelist=node3", "--gres=gpu:h100:1", "--mem=1000"}, "sleep 300");
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return !Jobs("R").empty(); }));
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
  Scaled scaled(model, Section("keep", fmt::format(", topology: {}", folder_ / "topology.conf")));
  std::ofstream(folder_ / "key") << kScalingAdminKey << "\n";
  std::ofstream(folder_ / "job.yaml") << "name: gang\ncommand: [/bin/sleep, \"300\"]\nmembers: 2\n"
                                         "devices: [{kind: h100, count: 8}]\n"
                                         "topology: {level: leaf, required: true}\n";
  const auto tidegate = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", scaled.gateway.admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  };
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return tidegate({"jobs", "list"}).code == 0; }));
  const CliResult submitted = tidegate({"jobs", "submit", folder_ / "job.yaml"});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const std::string id = submitted.out.substr(0, submitted.out.find('\n'));
  const auto show = [&] { return scaled.Admin("/admin/v1/jobs/" + id); };
  ASSERT_TRUE(Within(milliseconds(40'000), [&] { return show()["state"] == "running"; })) << show();
  std::set<std::string> nodes;
  const Json gang = show();
  for (const Json& run : gang["runs"]) nodes.insert(run["node"].get<std::string>());
  EXPECT_THAT(nodes, testing::ElementsAre("node2", "node4")) << "somebody else is on node3";
  EXPECT_EQ(tidegate({"jobs", "cancel", id}).code, 0);
  EXPECT_TRUE(Within(milliseconds(40'000), [&] { return show()["state"] == "cancelled"; }));
}

}  // namespace
}  // namespace tests
