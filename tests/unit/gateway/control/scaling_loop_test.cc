// The control loop with a launcher that does what a test says: what is done, in which order, and what comes
// of launchers that refuse, replicas that die or never answer, and a process that begins where another ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/gateway/control/scaling_loop_world.h"

namespace gateway::control {
namespace {

using namespace loop_world;
using plugins::launchers::RunSpec;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::Eventually;
using tests::TestLoop;

TEST(ScalingLoop, StartsTheWantedReplicasAfterRecordingThem) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    const std::string policy = Policy("{min: 2, max: 2}", ", env: {A: b}, secret_env: {S: env:S}");
    Gateway gateway(loop, machine, policy);
    gateway.ledger_status = absl::UnavailableError("disk full");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.Count(ReplicaState::kLaunching) == 2; }));
    EXPECT_THAT(machine.calls, IsEmpty()) << "nothing is done that the ledger does not have";
    gateway.ledger_status = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 2; }));
    EXPECT_THAT(gateway.events, testing::UnorderedElementsAre("replica.launch", "replica.launch",
                                                              "replica.ready", "replica.ready"));
    EXPECT_THAT(gateway.details[0], HasSubstr("2 wanted, 0 there: replicas.min"));
    EXPECT_THAT(gateway.details[0], HasSubstr("\"node\":\"local\""));
    EXPECT_EQ(machine.specs.size(), 2u);
    EXPECT_NE(machine.specs[0].grant.devices, machine.specs[1].grant.devices);
    EXPECT_EQ(machine.specs[0].env.size(), 2u);
    EXPECT_EQ(machine.specs[0].env[1].second, kSecret);
    EXPECT_TRUE(machine.specs[0].serves);
    EXPECT_EQ(machine.store.Count("workload"), 2u);
    co_await gateway.control->Close(false);
    EXPECT_THAT(machine.runs, IsEmpty());
    EXPECT_EQ(machine.store.Count("workload"), 0u);
    engine.Stop();
  });
}

TEST(ScalingLoop, NothingIsPlacedWhileTheLauncherCanStartNothing) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    machine.trouble = "the launch broker is gone";
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      return gateway.trouble().find("the launch broker is gone") != std::string::npos;
    })) << gateway.trouble();
    EXPECT_EQ(gateway.control->status(net::Now()).trouble, "the launch broker is gone");
    EXPECT_THAT(machine.calls, IsEmpty());
    EXPECT_EQ(gateway.Count(ReplicaState::kLaunching), 0u);
    machine.trouble.clear();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    EXPECT_EQ(gateway.control->status(net::Now()).trouble, "");
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AHeldModelKeepsTheNumberOfItsReplicasAndSaysWhoHoldsIt) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    gateway.held = ModelOrder{.by = "ada", .reason = "load test", .replicas = 2};
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 2; }));
    EXPECT_EQ(gateway.model().why, "held at 2 replicas by ada: load test");
    gateway.held.reset();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    EXPECT_EQ(gateway.model().max, 1u);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, WhatStartsTookIsKnownToTheNextProcess) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    const std::string policy = Policy("{min: 1, max: 1}");
    Gateway before(loop, machine, policy);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 1; }));
    co_await before.control->Close(false);
    EXPECT_EQ(machine.store.Count("model_memory"), 1u);
    machine.start = absl::UnavailableError("not now");
    Gateway after(loop, machine, policy);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.control->jobs() != nullptr; }));
    const auto phases = after.control->status(net::Now()).start_phases;
    EXPECT_EQ(phases.size(), 1u);
    if (!phases.empty()) EXPECT_EQ(phases[0].starts, 1u);
    EXPECT_TRUE(after.control->history("chat-small")->cold_start.has_value());
    co_await after.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AReplicaOnADrainedNodeEndsWhenAnotherIsReadyElsewhere) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    machine.shared.version = 1;
    for (const char* const node : {"node1", "node2"})
      machine.shared.nodes.push_back({.name = node, .kind = "h100", .devices = 4});
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    const std::string node = gateway.replicas().at(0).members.at(0).node;
    const absl::Status drained =
        co_await gateway.control->cordons()->Drain({.node = node, .reason = "new firmware", .by = "ada"});
    EXPECT_TRUE(drained.ok()) << drained;
    const auto ready = [&](bool elsewhere) {
      return std::ranges::any_of(gateway.replicas(), [&](const ReplicaStatus& replica) {
        return replica.state == ReplicaState::kReady && (replica.members.at(0).node != node) == elsewhere;
      });
    };
    // While it does not, the other must be.
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !ready(false); }));
    EXPECT_TRUE(ready(true));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.replicas().size() == 1; }));
    EXPECT_TRUE(ready(true));
    EXPECT_EQ(std::ranges::count(gateway.events, "node.drain"), 1);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, RunningReplicasAreAdoptedAfterAKillWithoutDuplicates) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    Gateway before(loop, machine, Policy("{min: 2, max: 2}", "", 2));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 2; }));
    co_await before.control->Close(true);
    EXPECT_EQ(machine.runs.size(), 2u);
    // Two that nobody knows of, one that is no concern of its, and one that has died meanwhile.
    machine.runs.push_back(
        {.id = "r-chat-small-lost", .state = RunState::kRunning, .host = "127.0.0.1", .port = 1});
    machine.runs.push_back({.id = "j-train-3-1-0", .state = RunState::kRunning});
    machine.runs.push_back({.id = "job-7", .state = RunState::kRunning});
    machine.runs.front().state = RunState::kEnded;
    const std::string survivor = std::next(machine.runs.begin())->id;
    machine.calls.clear();

    Gateway after(loop, machine, Policy("{min: 2, max: 2}", "", 2));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.served == 2 && machine.runs.size() == 3; }));
    EXPECT_EQ(std::ranges::count(machine.calls, "start " + survivor), 0);
    EXPECT_EQ(std::ranges::count(machine.calls, "stop r-chat-small-lost"), 1);
    EXPECT_EQ(std::ranges::count(machine.calls, "stop j-train-3-1-0"), 1);
    EXPECT_EQ(std::ranges::count(after.events, "job.stop"), 1);
    EXPECT_EQ(std::ranges::count(machine.calls, "stop job-7"), 0) << "it is neither a replica nor a job's";
    EXPECT_EQ(machine.specs.size(), 3u) << "one was started, for the one that had died";
    EXPECT_EQ(std::ranges::count(after.events, "replica.adopt"), 1);
    for (const ReplicaStatus& replica : after.replicas()) EXPECT_EQ(replica.adopted, replica.run == survivor);
    co_await after.control->Close(true);
    engine.Stop();
  });
}

constexpr const char* kKeyed = ", api_key: generated";

std::string KeyOf(const RunSpec& spec, std::string_view variable = "VLLM_API_KEY") {
  for (const auto& [name, value] : spec.env) {
    if (name == variable) return value;
  }
  return {};
}

// An engine that demands the key of the run that was started last, as vLLM does.
void DemandsKey(tests::HttpPeer& engine, FakeMachine& machine) {
  engine.status = [&engine, &machine] {
    const tests::HttpPeer::Request& request = engine.seen.back();
    if (!request.target.starts_with("/v1") || machine.specs.empty()) return 200;
    const auto given = request.headers.find("authorization");
    return given != request.headers.end() && given->second == "Bearer " + KeyOf(machine.specs.back()) ? 200
                                                                                                      : 401;
  };
}

TEST(ScalingLoop, AReplicaIsReadyWhenItsEngineDemandsTheKeyThatItWasGiven) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    DemandsKey(engine, machine);
    Gateway before(loop, machine, Policy("{min: 1, max: 1}", kKeyed));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 1; }));
    const std::string key = KeyOf(machine.specs[0]);
    EXPECT_GE(key.size(), 64u);
    EXPECT_EQ(KeyOf(machine.specs[0], "TIDEGATE_REPLICA_KEY"), key);
    EXPECT_EQ(before.KeyOfFirstReplica(), key);
    for (const std::string& detail : before.details) EXPECT_THAT(detail, testing::Not(HasSubstr(key)));
    for (const auto& [at, object] : machine.store.objects)
      EXPECT_THAT(object.body, testing::Not(HasSubstr(key)));
    co_await before.control->Close(true);

    Gateway after(loop, machine, Policy("{min: 1, max: 1}", kKeyed));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.served == 1; }));
    EXPECT_EQ(machine.specs.size(), 1u) << "it was taken over";
    EXPECT_EQ(after.KeyOfFirstReplica(), key);
    EXPECT_EQ(std::ranges::count(after.events, "replica.adopt"), 1);
    // Another replica has another key.
    machine.runs.front().state = RunState::kEnded;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.specs.size() == 2; }));
    EXPECT_NE(KeyOf(machine.specs[1]), key);
    co_await after.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AReplicaWithoutItsEngineGetsNoRequestsWhileItEnds) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    machine.runs.front().state = RunState::kStopping;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 0; }));
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AProcessThatAnswersWithoutTheKeyIsHandedNeitherPromptNorKey) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& thief = AnswersOn(machine, loop);
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", kKeyed));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.model().failures >= 1; }));
    EXPECT_EQ(gateway.served, 0u);
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      return gateway.trouble().find("without a key") != std::string::npos;
    })) << gateway.trouble();
    for (const tests::HttpPeer::Request& request : thief.seen)
      EXPECT_FALSE(request.headers.contains("authorization"));
    co_await gateway.control->Close(false);
    thief.Stop();
  });
}

TEST(ScalingLoop, AProcessThatPretendsToDemandAKeyHasToGuessWhichItIs) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& thief = AnswersOn(machine, loop);
    // It refuses callers without a key, and takes any key. Once in a while the first one is the right one:
    // then it must not take the next.
    thief.status = [&thief] {
      const tests::HttpPeer::Request& request = thief.seen.back();
      return request.target.starts_with("/v1") && !request.headers.contains("authorization") ? 401 : 200;
    };
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", kKeyed));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.model().failures >= 1; }));
    EXPECT_EQ(gateway.served, 0u);
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      return gateway.trouble().find("with a wrong key") != std::string::npos;
    })) << gateway.trouble();
    co_await gateway.control->Close(false);
    thief.Stop();
  });
}

TEST(ScalingLoop, AnEngineThatRefusesItsOwnKeyFailsAtOnceAndSaysWhy) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    engine.status = [&engine] { return engine.seen.back().target.starts_with("/v1") ? 401 : 200; };
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", kKeyed));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.model().failures >= 1; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      return gateway.trouble().find("refuses the replica's key") != std::string::npos;
    })) << gateway.trouble();
    EXPECT_EQ(gateway.served, 0u);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, DeviceTimeIsRecordedBeforeReleaseAndContinuesAfterARestart) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    const conf::TimePoint begun = net::Now();
    Gateway before(loop, machine, Policy("{min: 1, max: 1}", "", 2));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 1; }));
    co_await before.control->Close(true);
    EXPECT_FALSE(machine.metered.empty()) << "up to its end";
    EXPECT_EQ(before.charged, machine.metered.size());

    Gateway after(loop, machine, Policy("{min: 0, max: 1}", "", 2));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.served == 1; }));
    machine.meter_works = false;
    machine.runs.front().state = RunState::kEnded;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.Count(ReplicaState::kStopping) == 1; }));
    EXPECT_FALSE(co_await Eventually(
        loop, [&] { return after.replicas().empty(); }, milliseconds(300)))
        << "its devices are nobody else's before that is on disk";
    EXPECT_FALSE(std::ranges::any_of(machine.calls, [](const auto& c) { return c.starts_with("forget "); }));
    machine.meter_works = true;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.replicas().empty(); }));
    const double held = machine.DeviceSeconds();
    EXPECT_GT(held, 0.6) << "two devices";
    EXPECT_LE(held, 2 * conf::ToSeconds(net::Now() - begun));
    for (size_t i = 1; i < machine.metered.size(); ++i)
      EXPECT_EQ(machine.metered[i].from_us, machine.metered[i - 1].until_us)
          << "nothing twice, nothing left out";
    co_await after.control->Close(true);
    engine.Stop();
  });
}

TEST(ScalingLoop, ADeadReplicaIsReplacedAfterAPauseWithItsReason) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    machine.dies = true;
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.model().failures >= 2; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.trouble().starts_with("2 "); }));
    EXPECT_THAT(gateway.trouble(), HasSubstr("starts in a row have failed: it exited with 3"));
    EXPECT_EQ(gateway.why_none(), gateway.trouble());
    EXPECT_LE(machine.specs.size(), 3u) << "not as fast as it can";
    EXPECT_TRUE(gateway.model().next_start);
    co_await gateway.control->Close(false);
    EXPECT_THAT(machine.runs, IsEmpty());
  });
}

TEST(ScalingLoop, AReplicaThatNeverAnswersIsGivenUp) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    auto& engine = loop.Make<tests::HttpPeer>();
    engine.status = [] { return 503; };
    engine.Listen();
    machine.port = static_cast<uint16_t>(std::stoi(engine.url("/").port));
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", ", ready: {path: /ready, timeout: 300ms}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] {  // a start that took all the time was not probed yet
      return gateway.trouble().find("not ready within 300ms: /ready answers 503") != std::string::npos;
    })) << gateway.trouble();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.runs.empty(); }));
    EXPECT_EQ(gateway.served, 0u);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, ALauncherThatRefusesIsAskedAgainOrNot) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    machine.start = absl::UnavailableError("no port is free");
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.calls.size() == 2; }));
    EXPECT_EQ(machine.calls[0], machine.calls[1]) << "the same one again";
    EXPECT_EQ(gateway.model().failures, 0u);
    machine.start = absl::InvalidArgumentError("serve: no such program");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !gateway.trouble().empty(); }));
    EXPECT_THAT(gateway.trouble(), HasSubstr("serve: no such program"));
    co_await gateway.control->Close(false);
  });
}

TEST(ScalingLoop, ALauncherThatThrowsIsAskedAgainAndWhatItStartsCanBeEnded) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    machine.start_throws = true;
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.calls.size() == 2; }));
    EXPECT_EQ(machine.calls[0], machine.calls[1]) << "the same one again";
    co_await gateway.control->Close(false);  // it waits for no step for ever
    EXPECT_THAT(machine.runs, IsEmpty());
  });
}

void MakeTwoNodes(FakeMachine& machine) {
  machine.shared.version = 1;
  for (const char* name : {"node1", "node2"})
    machine.shared.nodes.push_back({.name = name, .kind = "h100", .devices = 4});
}

TEST(ScalingLoop, NothingStartsOnASilentNodeAndTheReasonIsShown) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    auto& engine = loop.Make<tests::HttpPeer>();
    engine.Listen();
    FakeMachine machine;
    machine.port = static_cast<uint16_t>(std::stoi(engine.url("/").port));
    MakeTwoNodes(machine);
    machine.silent = {"node1"};
    // Each takes all of a node.
    Gateway gateway(loop, machine, Policy("{min: 2, max: 2}", "", 4));
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return gateway.served == 1 && gateway.Count(ReplicaState::kWaiting) == 1; }));
    EXPECT_EQ(machine.specs.size(), 1u);
    EXPECT_EQ(machine.specs[0].grant.node, "node2");
    EXPECT_EQ(std::ranges::count(gateway.events, "node.suspect"), 1);
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      return gateway.why_none().find("node1 takes no new work: refused.") != std::string::npos;
    })) << gateway.why_none();
    const Status status = gateway.control->status(net::Now());
    EXPECT_EQ(status.nodes.size(), 1u);
    EXPECT_EQ(status.nodes[0].why, "refused");
    EXPECT_EQ(status.suspicions, 1u);
    EXPECT_EQ(gateway.model().failures, 0u) << "no fault of the model";
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, ReplicasOfASilentNodeAreReplacedNotEndedAndCountAgainLater) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    auto& engine = loop.Make<tests::HttpPeer>();
    engine.Listen();
    FakeMachine machine;
    machine.port = static_cast<uint16_t>(std::stoi(engine.url("/").port));
    MakeTwoNodes(machine);
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", "", 4));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    const std::string first = machine.specs[0].id;
    plugins::launchers::SharedNode& node =
        machine.shared.nodes[machine.specs[0].grant.node == "node1" ? 0 : 1];
    node.health = scheduler::Health::kSuspect;
    node.why = "Slurm says idle NOT_RESPONDING";
    ++machine.shared.version;
    EXPECT_FALSE(co_await Eventually(
        loop, [&] { return machine.specs.size() > 1; }, milliseconds(500)))
        << "it answers, and the node may be back in a moment";
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 2; }, milliseconds(20'000)));
    EXPECT_NE(machine.specs[1].grant.node, node.name);
    EXPECT_EQ(std::ranges::count(machine.calls, "stop " + first), 0) << "it serves beside the other";
    node.health = scheduler::Health::kHealthy;
    ++machine.shared.version;
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return machine.runs.size() == 1; }, milliseconds(20'000)))
        << "one more than is wanted";
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AStopDuringTheStartEndsTheRunningReplicas) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    Gateway before(loop, machine, Policy("{min: 2, max: 2}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 2; }));
    co_await before.control->Close(true);
    machine.runs.push_back({.id = "r-chat-small-lost", .state = RunState::kRunning, .host = "127.0.0.1"});
    EXPECT_EQ(machine.runs.size(), 3u);

    Gateway kept(loop, machine, Policy("{min: 2, max: 2}"));
    co_await kept.control->Close(true);
    EXPECT_EQ(machine.runs.size(), 3u) << "as it was told";

    machine.list = absl::UnavailableError("away");
    Gateway after(loop, machine, Policy("{min: 2, max: 2}"));
    EXPECT_FALSE(after.control->status(net::Now()).begun);
    net::Sleep sleep(loop.watchdog);
    loop.tasks.Spawn([](FakeMachine& there, net::Sleep& pause) -> net::Task<void> {
      co_await pause.For(milliseconds(300));
      there.list = absl::OkStatus();
    }(machine, sleep));
    co_await after.control->Close(false);
    EXPECT_THAT(machine.runs, IsEmpty()) << "also what nobody knew of";
    EXPECT_EQ(machine.specs.size(), 2u) << "nothing was started any more";
    engine.Stop();
  });
}

TEST(ScalingLoop, NothingStartsWhileTheStoreCannotBeReadAndTheReasonIsShown) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    machine.store.lists = absl::DataLossError("state.db: the file is damaged");
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}"));
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return !gateway.control->status(net::Now()).trouble.empty(); }));
    EXPECT_THAT(gateway.control->status(net::Now()).trouble, HasSubstr("state.db: the file is damaged"));
    EXPECT_THAT(machine.calls, IsEmpty());
    machine.store.lists = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ScalingLoop, AnImpossibleReplicaWaitsWithItsReason) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    Gateway gateway(loop, machine, Policy("{min: 1, max: 1}", "", 8));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !gateway.why_none().empty(); }));
    EXPECT_EQ(gateway.Count(ReplicaState::kWaiting), 1u);
    EXPECT_EQ(gateway.replicas()[0].why, gateway.why_none());
    EXPECT_THAT(machine.calls, IsEmpty());
    co_await gateway.control->Close(false);
  });
}

// Replicas of two members, each of which takes all of a node.
std::string GangPolicy(const std::string& replicas = "{min: 1, max: 1}", const std::string& more = "") {
  return fmt::format(
      "model: chat-small\nreplicas: {}\nscaling: {{policy: schedule}}\n"
      "placement: {{members: 2, devices: [{{kind: h100, count: 4}}]}}\n"
      "replica: {{engine: vllm, command: [serve, --port, \"{{port}}\"], worker_command: [work], api_key: "
      "none{}}}\n",
      replicas, more);
}

std::string Variable(const RunSpec& spec, std::string_view name) {
  for (const auto& [key, value] : spec.env) {
    if (key == name) return value;
  }
  return "(not set)";
}

RunStatus& RunOf(FakeMachine& machine, const std::string& id) {
  return *std::ranges::find(machine.runs, id, &RunStatus::id);
}

void Ends(RunStatus& run, conf::TimePoint at) {
  run.state = RunState::kEnded;
  run.ended = at;
}

size_t Calls(const FakeMachine& machine, const std::string& call) {
  return static_cast<size_t>(std::ranges::count(machine.calls, call));
}

// Of the stops that the ledger has.
std::string StopReason(const Gateway& gateway) {
  for (size_t i = 0; i < gateway.events.size(); ++i) {
    if (gateway.events[i] == "replica.stop") return gateway.details[i];
  }
  return {};
}

TEST(ReplicaMembers, StartTogetherKnowEachOtherAndTheLeaderServes) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    Gateway gateway(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    EXPECT_EQ(machine.specs.size(), 2u);
    const RunSpec& leader = machine.specs[0];
    const RunSpec& worker = machine.specs[1];
    EXPECT_TRUE(leader.serves);
    EXPECT_FALSE(worker.serves);
    EXPECT_THAT(leader.command, testing::ElementsAre("serve", "--port", "{port}"));
    EXPECT_THAT(worker.command, testing::ElementsAre("work"));
    EXPECT_NE(leader.grant.node, worker.grant.node);
    EXPECT_EQ(worker.grant.devices.size(), 4u);
    for (const RunSpec& spec : machine.specs) {
      EXPECT_EQ(spec.gang.size, 2u);
      EXPECT_EQ(spec.gang.leader, leader.grant.node);
      EXPECT_EQ(spec.gang.leader_port, leader.gang.leader_port);
      EXPECT_EQ(Variable(spec, "RANK"), std::to_string(spec.gang.rank));
      EXPECT_EQ(Variable(spec, "WORLD_SIZE"), "2");
      EXPECT_EQ(Variable(spec, "MASTER_ADDR"), leader.grant.node);
      EXPECT_EQ(Variable(spec, "MASTER_PORT"), std::to_string(leader.gang.leader_port));
    }
    EXPECT_EQ(worker.gang.rank, 1u);
    EXPECT_EQ(std::ranges::count(gateway.events, "replica.launch"), 1) << "one replica";
    EXPECT_THAT(gateway.details[0], HasSubstr("\"members\":[{\"node\":"));
    const std::vector<ReplicaStatus> rows = gateway.replicas();
    EXPECT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].members.size(), 2u);
    EXPECT_EQ(rows[0].members[1].state, "running");
    EXPECT_EQ(gateway.control->status(net::Now()).launches, 1u);
    co_await gateway.control->Close(false);
    EXPECT_THAT(machine.runs, IsEmpty());
    engine.Stop();
  });
}

TEST(ReplicaMembers, WithoutACommandOfTheirOwnWorkersRunTheLeadersAndGetAPortWhereItNamesOne) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    std::string policy = GangPolicy();
    policy.replace(policy.find(", worker_command: [work]"), 24, "");
    Gateway gateway(loop, machine, policy);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    EXPECT_EQ(machine.specs.size(), 2u);
    EXPECT_EQ(machine.specs[1].command, machine.specs[0].command);
    EXPECT_TRUE(machine.specs[1].serves);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ReplicaMembers, NoneServesBeforeAllRunAndTheOneThatIsLateIsNamed) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    machine.slow_workers = true;
    Gateway gateway(loop, machine, GangPolicy("{min: 1, max: 1}", ", ready: {timeout: 2s}"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.trouble().starts_with("1 "); }));
    EXPECT_EQ(gateway.served, 0u) << "its leader would answer";
    EXPECT_THAT(gateway.trouble(), HasSubstr("not ready within 2s: member 1 on " +
                                             machine.specs[1].grant.node + ": it waits for its turn"));
    machine.slow_workers = false;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ReplicaMembers, ADeadMemberReplacesTheWholeReplicaAndIsNamed) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    Gateway gateway(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    const std::string first = machine.specs[0].id;
    const std::string node = machine.specs[1].grant.node;
    RunOf(machine, first + "-1").signal = 9;
    Ends(RunOf(machine, first + "-1"), net::Now());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.specs.size() == 4 && gateway.served == 1; }));
    EXPECT_EQ(Calls(machine, "stop " + first), 1u) << "the leader, which still ran";
    EXPECT_EQ(Calls(machine, "stop " + first + "-1"), 0u);
    EXPECT_THAT(StopReason(gateway), HasSubstr("member 1 on " + node + " was ended by signal 9"));
    EXPECT_NE(machine.specs[2].id, first);
    EXPECT_EQ(machine.specs[3].id, machine.specs[2].id + "-1");
    EXPECT_EQ(machine.runs.size(), 2u);
    EXPECT_EQ(gateway.control->status(net::Now()).failures, 1u);
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ReplicaMembers, TheReasonNamesTheMemberThatEndedFirstNotTheOneThatIsSeenFirst) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    Gateway gateway(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.served == 1; }));
    const std::string id = machine.specs[0].id;
    const conf::TimePoint killed = net::Now();
    RunOf(machine, id).exit_code = 3;
    Ends(RunOf(machine, id), killed + milliseconds(1));
    RunOf(machine, id + "-1").signal = 9;
    Ends(RunOf(machine, id + "-1"), killed);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !StopReason(gateway).empty(); }));
    EXPECT_THAT(StopReason(gateway), HasSubstr("member 1 on "));
    EXPECT_THAT(StopReason(gateway), HasSubstr("was ended by signal 9"));

    // A leader that nobody has left behind.
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.specs.size() == 4 && gateway.served == 1; }));
    gateway.events.clear();
    gateway.details.clear();
    const std::string next = machine.specs[2].id;
    RunOf(machine, next).exit_code = 3;
    Ends(RunOf(machine, next), net::Now());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !StopReason(gateway).empty(); }));
    EXPECT_THAT(StopReason(gateway), HasSubstr("member 0 on "));
    EXPECT_THAT(StopReason(gateway), HasSubstr("exited with 3"));
    co_await gateway.control->Close(false);
    engine.Stop();
  });
}

TEST(ReplicaMembers, AreTakenOverTogetherAfterAKill) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    FakeMachine machine;
    tests::HttpPeer& engine = AnswersOn(machine, loop);
    MakeTwoNodes(machine);
    Gateway before(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return before.served == 1; }));
    co_await before.control->Close(true);
    EXPECT_EQ(machine.runs.size(), 2u);
    machine.calls.clear();

    Gateway after(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return after.served == 1; }));
    EXPECT_THAT(machine.calls, IsEmpty()) << "nothing is started or stopped";
    EXPECT_EQ(std::ranges::count(after.events, "replica.adopt"), 1);
    EXPECT_EQ(after.replicas()[0].members.size(), 2u);
    co_await after.control->Close(true);

    // One of them has gone meanwhile.
    const std::string first = machine.specs[0].id;
    std::erase_if(machine.runs, [&](const RunStatus& run) { return run.id == first + "-1"; });
    Gateway last(loop, machine, GangPolicy());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return machine.specs.size() == 4 && last.served == 1; }));
    EXPECT_EQ(Calls(machine, "stop " + first), 1u);
    EXPECT_THAT(StopReason(last), HasSubstr("member 1 on "));
    EXPECT_THAT(StopReason(last), HasSubstr("was gone when this gateway started"));
    co_await last.control->Close(false);
    EXPECT_THAT(machine.runs, IsEmpty());
    engine.Stop();
  });
}

}  // namespace
}  // namespace gateway::control
