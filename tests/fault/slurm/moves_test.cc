// Moves of running work through a real Slurm: a training gang saves and goes on at another node, a replica is replaced
// first, nodes that Slurm drains are left, no request fails; and a gateway that is killed in the middle doubles nothing
// and loses nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fault/gateway/job_commands.h"
#include "tests/fault/gateway/moving.h"
#include "tests/fault/slurm/slurm_world.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kMovePatience{90'000};

// Counts its steps. On USR1 it writes down how far it has come, as soon as there is no file `slow`, and ends.
constexpr std::string_view kGangSteps = R"(#!/bin/sh
step=0
if [ "$1" = --resume ]; then step=$(cat "saved.$RANK"); fi
echo "$TIDEGATE_ATTEMPT $RANK begins $step $TIDEGATE_NODE" >> told
save() {
  while [ -e slow ]; do sleep 0.05; done
  echo "$step" > "saved.$RANK.new" && mv "saved.$RANK.new" "saved.$RANK"
  echo "$TIDEGATE_ATTEMPT $RANK saved $step $TIDEGATE_NODE" >> told
  exit 0
}
trap save USR1
while :; do
  step=$((step + 1))
  sleep 0.05
done
)";

// What the members of the gang have told, by attempt.
struct Told {
  std::map<int, int> begins, saved;  // steps, by rank
  std::set<std::string> nodes;       // where they began
};

class SlurmMoves : public SlurmWorld {
 protected:
  SlurmCluster::Options ClusterOptions() const override { return {.nodes = 4, .gpus = 2}; }
  void SetUp() override {
    SlurmWorld::SetUp();
    std::ofstream(folder_ / "planner.yaml") << "placement: spread\ninference_placement: spread\n";
    if (cluster_) std::ofstream(shared() + "/train.sh") << kGangSteps;
  }
  std::string MovingSection() const {
    return fmt::format("{}, planner: {}, moves: {{per_hour: 20, rest: 1s, least_left: 1s, least_gain: 1s}}",
                       Section(), folder_ / "planner.yaml");
  }
  // Starts only while there is no file `slow`.
  ScaledModel TwoReplicas() const {
    return {.replicas = "{min: 2, max: 2}",
            .more = "placement: {devices: [{kind: h100}]}\n",
            .command = fmt::format("[/bin/sh, -c, \"while [ -e {}/slow ]; do sleep 0.1; done; "
                                   "exec {} --port {{port}} --model chat-small --preset instant\"]",
                                   shared(), TIDEGATE_ENGINE_BINARY)};
  }
  std::string Gang() const {
    return fmt::format(
        "name: train\ndirectory: {}\ncommand: [/bin/sh, train.sh]\nmembers: 2\n"
        "devices: [{{kind: h100, count: 1}}]\nestimate: 20h\n"
        "checkpoint: {{grace: 120s, save: 1s, interval: 1h, resume: [/bin/sh, train.sh, --resume]}}\n",
        shared());
  }
  // It has no checkpoint, and stays where it is.
  static std::string Sleeps(std::string_view name, int devices) {
    return fmt::format(
        "name: {}\nwork: batch\ncommand: [/bin/sleep, \"600\"]\ndevices: [{{kind: h100, count: {}}}]\n", name,
        devices);
  }
  std::map<int, Told> WhatTheGangTold() const {
    std::map<int, Told> attempts;
    std::istringstream lines(ReadFile(shared() + "/told"));
    int attempt = 0;
    int rank = 0;
    int step = 0;
    for (std::string verb, node; lines >> attempt >> rank >> verb >> step >> node;) {
      Told& told = attempts[attempt];
      std::map<int, int>& of = verb == "saved" ? told.saved : told.begins;
      EXPECT_TRUE(of.emplace(rank, step).second)
          << "rank " << rank << " " << verb << " twice in attempt " << attempt;
      if (verb == "begins") told.nodes.insert(node);
    }
    return attempts;
  }
  // Each member of the attempt begins with the step that it had saved, and no step is lost.
  void ExpectResumed(int attempt) const {
    ASSERT_TRUE(Within(kMovePatience, [&] { return WhatTheGangTold()[attempt].begins.size() == 2; }))
        << ReadFile(shared() + "/told");
    std::map<int, Told> told = WhatTheGangTold();
    EXPECT_EQ(told.rbegin()->first, attempt) << ReadFile(shared() + "/told");
    EXPECT_EQ(told[attempt].begins, told[attempt - 1].saved);
    for (const auto& [rank, step] : told[attempt].begins)
      EXPECT_GT(step, attempt > 1 ? told[attempt - 1].begins[rank] : 0);
  }
  // Names of the jobs that Slurm has not ended, each once.
  std::set<std::string> Runs() const {
    std::set<std::string> names;
    std::istringstream lines(Jobs("PD,R,CG", "%j"));
    for (std::string name; lines >> name;)
      EXPECT_TRUE(names.insert(name).second) << name << " was started twice";
    return names;
  }
};

std::set<std::string> NodesWith(const Json& workloads) {
  std::set<std::string> nodes;
  for (const Json& workload : workloads) nodes.insert(workload["node"].get<std::string>());
  return nodes;
}

std::set<std::string> IdsOf(const Json& replicas) {
  std::set<std::string> ids;
  for (const Json& replica : replicas) ids.insert(replica["id"].get<std::string>());
  return ids;
}

TEST_F(SlurmMoves, AReplicaAndAGangMoveForJobsThatNeedANodeAndLeaveDrainedNodesWhileAllRequestsAreAnswered) {
  Scaled scaled(TwoReplicas(), MovingSection());
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kMovePatience)) << scaled.Replicas();
  const std::set<std::string> before = IdsOf(scaled.Replicas());
  std::vector<std::string> others = {commands.Submit(Sleeps("fixed", 1)),
                                     commands.Submit(Sleeps("fixed", 1))};
  for (const std::string& fixed : others)
    ASSERT_TRUE(commands.Comes(fixed, "running")) << commands.Explain(fixed);
  Callers callers(scaled.gateway);

  // Every node has one free device, and only replicas can move.
  others.push_back(commands.Submit(Sleeps("first", 2)));
  ASSERT_TRUE(commands.Comes(others.back(), "running"))
      << commands.Explain(others.back()) << scaled.Replicas();
  ASSERT_TRUE(scaled.Becomes(2, "ready", kMovePatience)) << scaled.Replicas();
  const Json moved = scaled.Replicas();
  std::set<std::string> gone = before;
  std::string next;
  for (const Json& replica : moved) {
    if (gone.erase(replica["id"].get<std::string>()) > 0) continue;
    next = replica["id"];
    EXPECT_THAT(replica["gain"].get<std::string>(),
                HasSubstr("so that " + others.back() + " with 2 devices fits"));
  }
  ASSERT_EQ(gone.size(), 1u) << moved;
  // Of the ledger: the new one serves before the old one drains.
  std::vector<std::string> told;
  for (const Record& record : scaled.Actions()) {
    if (record.subject == next || record.subject == *gone.begin())
      told.push_back(record.action + (record.subject == next ? " next" : " old"));
    if (record.action == "replica.launch" && record.subject == next)
      EXPECT_THAT(record.detail, AllOf(HasSubstr("\"replaces\""), HasSubstr("\"gain\"")));
  }
  EXPECT_THAT(told, testing::ElementsAre("replica.launch old", "replica.ready old", "replica.launch next",
                                         "replica.ready next", "replica.drain old", "replica.stop old"));
  ExpectNoDeviceTwice(scaled);
  EXPECT_EQ(scaled.gateway.Metric("tidegate_replica_moves_ended_total{result=\"done\"}"), 1);
  ASSERT_TRUE(commands.CancelAll(kMovePatience));
  others.clear();

  // Jobs for whole nodes until the last one finds no node, which the gang makes free: it is cheaper to move.
  const std::string train = commands.Submit(Gang());
  ASSERT_TRUE(commands.Comes(train, "running")) << commands.Explain(train);
  ASSERT_TRUE(Within(kMovePatience, [&] { return WhatTheGangTold()[1].begins.size() == 2; }));
  while (commands.Show(train)["attempt"] == 1 && others.size() < 3) {
    others.push_back(commands.Submit(Sleeps("whole", 2)));
    ASSERT_TRUE(commands.Comes(others.back(), "running"))
        << commands.Explain(others.back()) << commands.Explain(train);
  }
  ASSERT_TRUE(commands.Comes(train, "running", 2)) << commands.Explain(train);
  ExpectResumed(2);
  EXPECT_THAT(commands.Show(train)["gain"].get<std::string>(),
              HasSubstr("so that " + others.back() + " with 2 devices fits"));
  EXPECT_THAT(commands.Explain(train), HasSubstr("It moved at "));
  EXPECT_EQ(scaled.gateway.Metric("tidegate_moves_total{of=\"job\"}"), 1);
  std::vector<std::string> of_train;
  for (const Record& record : scaled.Actions()) {
    if (record.subject == train) of_train.push_back(record.action);
    if (record.action == "job.move") EXPECT_THAT(record.detail, HasSubstr("\"gain\""));
  }
  EXPECT_THAT(of_train,
              testing::ElementsAre("job.submit", "job.start", "job.move", "job.ended", "job.start"));
  ExpectNoDeviceTwice(scaled);

  // Slurm drains a node of a replica and one of the gang; what is left of the cluster is just enough.
  for (const std::string& other : others) EXPECT_EQ(commands.Run({"jobs", "cancel", other}).code, 0);
  const std::set<std::string> drained = {scaled.Replicas()[0]["node"].get<std::string>(),
                                         *WhatTheGangTold()[2].nodes.begin()};
  for (const std::string& node : drained)
    cluster_->Run({"/usr/bin/scontrol", "update", "nodename=" + node, "state=drain", "reason=fan"});
  const auto left = [&](const std::set<std::string>& nodes) {
    return std::ranges::none_of(nodes, [&](const std::string& node) { return drained.contains(node); });
  };
  ASSERT_TRUE(commands.Comes(train, "running", 3)) << commands.Explain(train);
  ExpectResumed(3);
  EXPECT_TRUE(left(WhatTheGangTold()[3].nodes)) << ReadFile(shared() + "/told");
  EXPECT_THAT(commands.Explain(train), HasSubstr("it leaves node"));
  EXPECT_TRUE(Within(kMovePatience, [&] {
    const Json all = scaled.Replicas();
    Pause(milliseconds(50));
    return all.size() == 2 && left(NodesWith(all)) &&
           std::ranges::all_of(all, [](const Json& replica) { return replica["state"] == "ready"; });
  })) << scaled.Replicas();
  callers.End();
  EXPECT_EQ(callers.failed(), 0) << callers.first_failure();
  EXPECT_GT(callers.answered(), 20);
  ExpectNoDeviceTwice(scaled);
  EXPECT_TRUE(commands.CancelAll(kMovePatience));
  scaled.KeepNothing();
}

TEST_F(SlurmMoves, AKillOfTheGatewayInTheMiddleDoublesNothingAndLosesNothing) {
  Scaled scaled(TwoReplicas(), MovingSection());
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kMovePatience)) << scaled.Replicas();
  const std::set<std::string> before = IdsOf(scaled.Replicas());
  const std::string train = commands.Submit(Gang());
  ASSERT_TRUE(commands.Comes(train, "running")) << commands.Explain(train);
  ASSERT_TRUE(Within(kMovePatience, [&] { return WhatTheGangTold()[1].begins.size() == 2; }));

  const std::string slow = shared() + "/slow";
  std::ofstream(slow) << "";
  const std::string first = commands.Submit(Sleeps("first", 2));
  ASSERT_TRUE(commands.Comes(train, "saving")) << commands.Explain(first) << commands.Explain(train);
  const std::string second = commands.Submit(Sleeps("second", 2));
  // Both replicas, the one that takes the place of one of them, and the gang.
  ASSERT_TRUE(Within(kMovePatience, [&] { return Runs().size() == 5; }))
      << Jobs("all", "%j %T") << commands.Explain(second) << scaled.Replicas();
  const std::set<std::string> runs = Runs();
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);

  scaled.gateway.Kill();
  scaled.gateway.Start();
  ASSERT_TRUE(Within(kMovePatience, [&] { return commands.StateOf(train) == "saving"; }))
      << commands.Explain(train);
  EXPECT_EQ(Runs(), runs);
  ExpectNoDeviceTwice(scaled);
  const Json replicas = scaled.Replicas();
  EXPECT_EQ(replicas.size(), 3u) << replicas;
  EXPECT_TRUE(std::ranges::any_of(replicas, [](const Json& replica) {
    return replica["replaces"].is_string();
  })) << replicas;
  ASSERT_TRUE(
      Within(kMovePatience, [&] { return scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status == 200; }));

  std::filesystem::remove(slow);
  ASSERT_TRUE(commands.Comes(train, "running", 2)) << commands.Explain(train);
  ExpectResumed(2);
  for (const std::string& job : {first, second})
    ASSERT_TRUE(commands.Comes(job, "running")) << commands.Explain(job) << scaled.Replicas();
  ASSERT_TRUE(scaled.Becomes(2, "ready", kMovePatience)) << scaled.Replicas();
  const std::set<std::string> after = IdsOf(scaled.Replicas());
  EXPECT_EQ(std::ranges::count_if(after, [&](const std::string& id) { return before.contains(id); }), 1);
  EXPECT_EQ(Runs().size(), 6u) << "two replicas, the gang of two, and both jobs: " << Jobs("all", "%j %T");
  ExpectNoDeviceTwice(scaled);
  std::map<std::string, int> launches;
  for (const Record& record : scaled.Actions())
    launches[record.subject] += record.action == "replica.launch" ? 1 : 0;
  for (const auto& [replica, times] : launches) EXPECT_LE(times, 1) << replica;
  EXPECT_TRUE(scaled.gateway.Settles());
  EXPECT_TRUE(commands.CancelAll(kMovePatience));
  scaled.KeepNothing();
}

}  // namespace
}  // namespace tests
