// Nodes that join, leave and change while replicas run, as a launcher finds them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/gateway/control/scaling_loop_world.h"

namespace gateway::control {
namespace {

using namespace loop_world;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::Eventually;
using tests::TestLoop;

TEST(NodeDiscovery, NothingBeginsBeforeTheNodesAreKnown) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    machine.found.emplace();
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return !gateway.control->status(net::Now()).trouble.empty(); }));
    EXPECT_EQ(gateway.control->jobs(), nullptr);
    EXPECT_THAT(machine.calls, IsEmpty());
    machine.FindNodes({{"node1", 4}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    EXPECT_EQ(machine.specs[0].grant.node, "node1");
    EXPECT_EQ(gateway.events[0], "nodes.found");
    EXPECT_THAT(gateway.details[0], HasSubstr("\"h100\":4"));
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(NodeDiscovery, NodesJoinAndLeaveWhileReplicasRun) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    machine.FindNodes({{"node2", 4}});
    // Each takes all of a node.
    Gateway gateway(loop, machine, Policy("{min: 2, max: 2}", "", 4));
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return gateway.served == 1 && gateway.Count(ReplicaState::kWaiting) == 1; }));
    machine.FindNodes({{"node1", 4}, {"node2", 4}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 2; }));
    EXPECT_EQ(machine.specs[1].grant.node, "node1");
    EXPECT_EQ(std::ranges::count(gateway.events, "node.join"), 1);

    machine.FindNodes({{"node1", 4}});
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return gateway.control->planner()->state().cluster().nodes.size() == 2; }));
    EXPECT_EQ(std::ranges::count(gateway.events, "node.leave"), 0) << "a replica runs there";
    std::vector<std::string> nodes;
    for (const ReplicaStatus& replica : gateway.replicas()) nodes.push_back(replica.members.at(0).node);
    EXPECT_THAT(nodes, testing::UnorderedElementsAre("node1", "node2")) << "by their new ids";
    for (RunStatus& run : machine.runs) {
      if (run.id == machine.specs[0].id) run.state = RunState::kEnded;
    }
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return std::ranges::count(gateway.events, "node.leave") == 1; },
        std::chrono::seconds(20)));
    const scheduler::Cluster& cluster = gateway.control->planner()->state().cluster();
    EXPECT_EQ(cluster.nodes.size(), 1u);
    EXPECT_EQ(gateway.served, 1u);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(NodeDiscovery, AChangeOfTheNodesWaitsForTheLedger) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    machine.FindNodes({{"node1", 4}});
    Gateway gateway(loop, machine, Policy("{min: 0, max: 2}", "", 4));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.control->planner() != nullptr; }));
    gateway.ledger_status = absl::UnavailableError("disk full");
    machine.FindNodes({{"node1", 2}});
    net::Sleep sleep(loop.watchdog);
    co_await sleep.For(milliseconds(500));
    const auto devices = [&] { return gateway.control->planner()->state().cluster().type_of(0).devices; };
    EXPECT_EQ(devices(), 4);
    gateway.ledger_status = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return devices() == 2; }));
    EXPECT_EQ(std::ranges::count(gateway.events, "node.change"), 1);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

}  // namespace
}  // namespace gateway::control
