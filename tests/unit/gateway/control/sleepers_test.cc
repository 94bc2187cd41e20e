// Three models that sleep on one device, over a clock that the test moves: who is awake, for how long at least, what a
// wake that fails becomes, and when a replica that wakes gets requests.
#include "gateway/control/replicas/sleepers.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/gateway/control/scaling_loop_world.h"

namespace gateway::control {
namespace {

using namespace loop_world;
using scheduler::autoscale::Claim;
using scheduler::autoscale::Need;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TestLoop;

constexpr conf::Duration kWakes = seconds(2);  // as measured
constexpr conf::Duration kStarts = seconds(60);
constexpr conf::Duration kLeast = seconds(30);  // min_awake

std::string SleepPolicy(const std::string& model) {
  return fmt::format(
      "model: {}\nreplicas: {{min: 0, max: 1}}\nscaling: {{policy: demand}}\n"
      "idle: {{sleep_after: 2h, stop_after: 1h, host_memory: 60GiB, min_awake: 30s, wake_timeout: 1m}}\n"
      "placement: {{devices: [{{kind: h100, count: 1}}]}}\n"
      "replica: {{engine: vllm, command: [serve, --port, \"{{port}}\"], api_key: none}}\n",
      model);
}

Config SleepConfig(const std::string& node_memory) {
  conf::Sources sources = FakeSources();
  sources.file = [&](const std::string& path) -> absl::StatusOr<std::string> {
    if (path != "nodes.yaml") return SleepPolicy(path.substr(0, path.find('.')));
    return fmt::format(
        "devices: [{{name: h100, memory: 80GiB}}]\n"
        "types: [{{name: server, cpu: 64, memory: {}, device: h100, count: 1}}]\n"
        "nodes: [{{name: node1, type: server}}]\n",
        node_memory);
  };
  LoadResult loaded =
      ParseConfig(With({{"models", "[{name: one}, {name: two}, {name: three}]"},
                        {"tenants", "[{name: search, models: [\"*\"]}]"},
                        {"scaling", "{policies: [one.yaml, two.yaml, three.yaml], cluster: nodes.yaml}"}}),
                  "t.yaml", sources);
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  return *std::move(loaded.config);
}

// One node with one device. It stands for the launcher, the store, the ledger and the autoscaler.
class SleepWorld {
 public:
  explicit SleepWorld(TestLoop& loop, const std::string& node_memory = "1TiB")
      : engine(AnswersOn(machine_, loop)),
        loop_(loop),
        config_(SleepConfig(node_memory)),
        launcher_(machine_),
        planning_(*config_.scaling, now),
        store_(machine_.store, planning_.cluster()),
        context_{.now = [this] { return now; },
                 .wake = [] {},
                 .spawn = [&loop](net::Task<void> task) { loop.tasks.Spawn(std::move(task)); },
                 .record = [](ledger::Event) -> net::Task<absl::Status> { co_return absl::OkStatus(); },
                 .launcher = &launcher_,
                 .planning = &planning_,
                 .store = &store_,
                 .keys = &keys_},
        workloads_(context_),
        replicas_(context_, workloads_,
                  {.policy = [this](const std::string& model) { return config_.scaling->Find(model); },
                   .may_start = [](const std::string&) { return true; },
                   .on_failure = [](const std::string&, const std::string&, conf::Duration) {},
                   .load = [this](const std::string& identity) { return states_.Get(identity); },
                   .doubted = [](const std::string&) { return false; },
                   .publish =
                       [this](const Launched& launched) {
                         for (const auto& [model, endpoints] : launched) {
                           if (served.empty() || served.back() != model) served.push_back(model);
                         }
                       }}),
        sleepers_(loop, context_, workloads_, replicas_,
                  {.policy = [this](const std::string& model) { return config_.scaling->Find(model); },
                   .metered = [](const Workload&) -> net::Task<bool> { co_return true; },
                   .waiting = [this](const std::string& model) { return waiting[model]; },
                   .claim = [this](const std::string& model) { return claims[model]; },
                   .cold_start = [](const std::string&) { return kStarts; },
                   .wake = [](const std::string&) { return kWakes; }}) {
    workloads_.Use(Kind::kReplica, replicas_);
  }
  ~SleepWorld() {
    sleepers_.Close();
    engine.Stop();
  }

  // A tenth of a second of the control loop, in its order.
  net::Task<void> Turn() {
    now += milliseconds(100);
    replicas_.Tick();
    const std::optional<scheduler::Plan> plan = plans ? planning_.Run(now) : std::nullopt;
    if (plan) {
      for (const scheduler::Action& action : plan->actions) workloads_.Apply(action);
      for (const auto& [id, reason] : plan->waiting)
        workloads_.Find(id)->unplaced = fmt::format("{}", fmt::join(planning_.Explain(id, now), " "));
    }
    replicas_.Publish();
    sleepers_.Tick();
    CarryOut();
    EXPECT_TRUE(co_await tests::Eventually(loop_, [&] { return sleepers_.under_way() == 0; }));
  }
  net::Task<void> Pass(conf::Duration time) {
    for (const conf::TimePoint until = now + time; now < until;) co_await Turn();
  }
  // Whether the model has a replica that serves within that time.
  net::Task<bool> Wakes(std::string model, conf::Duration within) {
    for (const conf::TimePoint until = now + within; now < until && Awake() != model;) co_await Turn();
    co_return Awake() == model;
  }

  // Requests come for the model and wait; the autoscaler wants a replica.
  void Ask(const std::string& model, double load) {
    waiting[model] = 1;
    claims[model].load = load;
    if (Only(model) == nullptr) sleepers_.Start(model, "requests wait", Need::kNow);
    if (Only(model) != nullptr && Only(model)->state == State::kAsleep)
      sleepers_.Start(model, "requests wait", Need::kNow);
  }
  void Idle(const std::string& model) {
    waiting[model] = 0;
    claims[model] = {};
  }
  // Each has run once and sleeps, the last one is awake and idle.
  net::Task<void> RunEachOnce() {
    for (const char* const model : {"one", "two", "three"}) {
      Ask(model, 1);
      EXPECT_TRUE(co_await Wakes(model, minutes(2))) << model;
      Idle(model);
    }
    co_await Turn();  // the last one is published
    served.clear();
  }

  Workload* Only(const std::string& model) {
    Workload* only = nullptr;
    replicas_.ForEach(model, [&](Workload& replica) { only = &replica; });
    return only;
  }
  std::string StateOf(const std::string& model) {
    const Workload* const replica = Only(model);
    return replica == nullptr ? "none" : std::string(Name(ReplicaStateOf(*replica)));
  }
  // The model that serves; empty: none.
  std::string Awake() {
    for (const Workload& workload : workloads_.all()) {
      if (workload.state == State::kRunning) return workload.model;
    }
    return {};
  }

  conf::TimePoint now = conf::FromUnixMicros(1'700'000'000'000'000);
  std::map<std::string, uint32_t> waiting;
  std::map<std::string, Claim> claims;
  bool plans = true;                // false: nothing may start, since records have no room
  std::vector<std::string> served;  // models in the order in which they got requests

 private:
  FakeMachine machine_;

 public:
  tests::HttpPeer& engine;

 private:
  void CarryOut() {
    std::vector<std::string> ids;
    for (const Workload& workload : workloads_.all()) ids.push_back(workload.id);
    for (const std::string& id : ids) {
      Workload& replica = *workloads_.Find(id);
      if (replica.state == State::kPending && replica.held) {
        replica.held = false;
        workloads_.AskPlanner(replica);
      } else if (replica.state == State::kPlaced) {
        workloads_.Enter(replica, State::kStarting, replica.why);
        for (Member& member : replica.members) {
          member.running = true;
          member.host = "127.0.0.1";
          member.port = machine_.port;
        }
        workloads_.Reconcile(replica);
      } else if (replica.state == State::kStarting && replica.serving.endpoint && !replica.wakes) {
        workloads_.Enter(replica, State::kRunning, "ready");
      } else if (replica.state == State::kDraining) {
        for (Member& member : replica.members) member.ended = true;
        workloads_.Settle(replica);
      }
      if (Workload* const there = workloads_.Find(id)) there->recorded = there->saved = true;
    }
  }

  TestLoop& loop_;
  const Config config_;
  FakeLauncher launcher_;
  Planning planning_;
  WorkloadStore store_;
  const ReplicaKeys keys_;
  router::ReplicaStates states_;
  const Context context_;
  Workloads workloads_;
  Replicas replicas_;
  Sleepers sleepers_;
};

TEST(Sleepers, WhoIsAwakeFollowsTheLoadAndEqualLoadsChangeNothing) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    world.Ask("three", 1);
    world.Ask("one", 1.2);
    world.Ask("two", 0.5);
    co_await world.Pass(minutes(10));
    EXPECT_EQ(world.Awake(), "three") << "a fifth more load is chance";
    world.Ask("one", 1.3);
    EXPECT_TRUE(co_await world.Wakes("one", seconds(2))) << world.StateOf("one");
    world.Ask("three", 1.1);
    co_await world.Pass(minutes(10));
    EXPECT_THAT(world.served, ElementsAre("one")) << "no model with less load took the device";
    EXPECT_EQ(world.StateOf("two"), "asleep");
    EXPECT_EQ(world.StateOf("three"), "asleep");
    world.Ask("two", 2);
    EXPECT_TRUE(co_await world.Wakes("two", seconds(2)));
  });
}

TEST(Sleepers, AReplicaStaysAwakeForItsLeastTimeAndMakesRoomWhenItIsIdle) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    const conf::TimePoint awake = world.Only("three")->since;
    world.Ask("one", 100);
    while (world.StateOf("three") == "ready") co_await world.Turn();
    EXPECT_GE(world.now - awake, kLeast);
    EXPECT_LE(world.now - awake, kLeast + seconds(1)) << "and no longer: it had no request";
    EXPECT_TRUE(co_await world.Wakes("one", seconds(2)));
  });
}

TEST(Sleepers, AModelWhoseRequestsHaveWaitedLongGetsATurnBesideMoreLoad) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    world.Ask("three", 10);
    world.Ask("one", 0.1);
    world.claims["one"].longest_wait = minutes(5);
    world.claims["one"].oldest = minutes(3);
    co_await world.Pass(minutes(10));
    EXPECT_EQ(world.Awake(), "three");
    world.claims["one"].oldest = minutes(4);  // four fifths
    EXPECT_TRUE(co_await world.Wakes("one", seconds(2)));
  });
}

TEST(Sleepers, AWakeThatFailsEndsAndAColdStartTakesItsPlace) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    const std::string slept = world.Only("one")->id;
    world.engine.status = [&] { return world.engine.seen.back().target.starts_with("/wake_up") ? 500 : 200; };
    world.Ask("one", 1);
    while (world.Only("one") != nullptr && world.Only("one")->id == slept) co_await world.Turn();
    EXPECT_THAT(world.served, IsEmpty()) << "it got no request";
    EXPECT_EQ(world.StateOf("three"), "asleep") << "it had made room";
    world.Ask("one", 1);  // the autoscaler sees that none is there
    EXPECT_TRUE(co_await world.Wakes("one", seconds(5)));
    EXPECT_NE(world.Only("one")->id, slept);
    co_await world.Turn();
    EXPECT_THAT(world.served, ElementsAre("one"));
  });
}

TEST(Sleepers, AReplicaThatWakesGetsNoRequestBeforeItHasGivenOneToken) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    const auto called = [&] {
      std::vector<std::string> paths;
      for (const auto& request : world.engine.seen)
        paths.push_back(request.target.substr(0, request.target.find('?')));
      return paths;
    };
    world.engine.seen.clear();
    std::vector<std::string> before_served;
    world.Ask("one", 1);
    while (world.Awake() != "one") {
      co_await world.Turn();
      if (world.served.empty()) before_served = called();
    }
    EXPECT_THAT(before_served, ElementsAre("/sleep", "/wake_up", "/v1/completions"));
    // One that wakes and gives no token serves nothing.
    co_await world.Turn();
    world.served.clear();
    world.Idle("one");
    const std::string slept = world.Only("two")->id;
    world.engine.status = [&] { return world.engine.seen.back().target.starts_with("/v1/") ? 503 : 200; };
    world.Ask("two", 1);
    while (world.Only("two") != nullptr && world.Only("two")->id == slept) co_await world.Turn();
    EXPECT_THAT(world.served, IsEmpty());
  });
}

TEST(Sleepers, OneThatIsToWakeSleepsOnWhileNothingMayStart) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    world.Ask("one", 1);
    EXPECT_TRUE(co_await world.Wakes("one", minutes(2)));
    world.Idle("one");
    world.Ask("two", 1);
    EXPECT_TRUE(co_await world.Wakes("two", minutes(2)));
    world.Idle("two");
    const std::string slept = world.Only("one")->id;
    co_await world.Pass(kLeast);
    world.plans = false;
    world.Ask("one", 1);  // the other one falls asleep, and the device is free
    co_await world.Pass(minutes(1));
    EXPECT_EQ(world.StateOf("one"), "asleep");
    world.plans = true;
    EXPECT_TRUE(co_await world.Wakes("one", seconds(2)));
    EXPECT_EQ(world.Only("one")->id, slept) << "it woke, and did not start anew";
  });
}

TEST(Sleepers, AnEngineThatDoesNotFallAsleepEndsAndGivesItsDevicesAllTheSame) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop);
    co_await world.RunEachOnce();
    world.engine.status = [&] { return world.engine.seen.back().target.starts_with("/sleep") ? 404 : 200; };
    world.Ask("one", 1);
    EXPECT_TRUE(co_await world.Wakes("one", minutes(1)));
    EXPECT_EQ(world.StateOf("three"), "none");
  });
}

TEST(Sleepers, TheHostMemoryOfSleepersIsTakenUntilTheyEnd) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    SleepWorld world(loop, "130GiB");  // of two
    for (const char* const model : {"one", "two"}) {
      world.Ask(model, 1);
      EXPECT_TRUE(co_await world.Wakes(model, minutes(2))) << model;
      world.Idle(model);
    }
    EXPECT_EQ(world.StateOf("one"), "asleep");
    world.Ask("three", 1);
    co_await world.Pass(minutes(5));
    EXPECT_EQ(world.StateOf("three"), "waiting") << "its device is free, and its memory is not";
    EXPECT_THAT(world.Only("three")->unplaced, HasSubstr("memory"));
    co_await world.Pass(minutes(60));  // stop_after
    EXPECT_EQ(world.StateOf("one"), "none");
    EXPECT_EQ(world.Awake(), "three");
  });
}

}  // namespace
}  // namespace gateway::control
