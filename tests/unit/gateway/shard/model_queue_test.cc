#include "gateway/shard/model_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "gateway/net/clock.h"
#include "gateway/shard/queue_place.h"
#include "gateway/shard/runtime.h"
#include "router/pick.h"
#include "scheduler/rng.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

constexpr std::string_view kConfig = R"(
server:  {listen: 127.0.0.1:8080, admin: 127.0.0.1:9090}
tenants: [{name: t, models: ["*"]}]
models:
  - name: m
    endpoints: [{url: "http://h:1", engine: vllm}, {url: "http://h:2", engine: vllm}]
    queue: {max_running: 2, max_requests: 100000}
)";

struct Learning {
  router::limits::LimitTree limits{};
  router::ReplicaStates replicas{};
  TokenEstimates estimates{};
  ModelQueues queues{};
  ScalingHintsByModel scaling_hints{};
  gateway::ModelSwitches switches{};
  Learned learned() { return {limits, replicas, estimates, queues, scaling_hints, switches}; }
};

// One shard: its loop, and requests that arrive, wait, hold a replica for a while, or leave.
struct Shard {
  Shard(const Runtime& with, uint64_t seed) : runtime(with), rng(seed) {}

  void Run(int requests) {
    for (int i = 0; i < requests; ++i) loop.tasks.Spawn(Ask(i));
    loop.Stop();
    loop.Run();
  }

  net::Task<void> Ask(int number) {
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(rng.Uniform(30)));
    const std::shared_ptr<ModelQueue> waits = runtime.models()[0].waits;
    const conf::TimePoint now = net::Now();
    const bool leaves = number % 4 == 0;
    const conf::Duration patience =
        leaves ? conf::Duration(std::chrono::milliseconds(rng.Uniform(20))) : std::chrono::minutes(5);
    const QueueEntry entry{.request = "req",
                           .tenant = number % 3 == 0 ? "a" : "b",
                           .band = number % 5 == 0 ? "low" : "normal",
                           .cost = 10,
                           .deadline = now + patience};
    auto place = std::make_unique<QueuePlace>(waits, loop, entry, now);
    if (place->Enter(now).refused != router::QueueRefusal::kNone) co_return;
    waits->WakeNext(runtime.SupplyOf("m"), now);
    QueuePlace::Outcome outcome = co_await place->Wait();
    if (outcome == QueuePlace::Outcome::kTurn && number % 7 == 0) {
      place->PutBack(net::Now());
      waits->WakeNext(runtime.SupplyOf("m"), net::Now());
      outcome = co_await place->Wait();
    }
    if (outcome != QueuePlace::Outcome::kTurn) {
      ++left;
      place.reset();
      waits->WakeNext(runtime.SupplyOf("m"), net::Now());
      co_return;
    }
    const conf::TimePoint charged = net::Now();
    router::Decision decision = router::Pick(runtime.routes(), router::ModelId{0}, runtime.load(),
                                             {.tokens = 1, .prefer_headroom = true}, {}, charged, rng);
    place->UseTurn(charged);
    waits->WakeNext(runtime.SupplyOf("m"), charged);
    co_await pause.For(std::chrono::milliseconds(rng.Uniform(3)));
    place->Settle(12);
    decision.charge.Release();
    waits->WakeNext(runtime.SupplyOf("m"), net::Now());
    ++served;
  }

  const Runtime& runtime;
  net::Loop loop{[](const std::exception_ptr& error) { std::rethrow_exception(error); }};
  scheduler::Rng rng;
  uint64_t served = 0;
  uint64_t left = 0;
};

// QueueTicks does not run here: only events wake the waiters.
TEST(ModelQueue, EveryWaiterIsWokenWhenShardsWakeOneAnother) {
  constexpr int kShards = 4;
  constexpr int kRequests = 300;
  Learning learning;
  std::atomic<int> begun{0};
  learning.queues.on_waiting = [&] { ++begun; };
  const auto runtime = *Runtime::Build(*Parse(kConfig).config, learning.learned(), net::Now());
  ModelQueue& queue = *runtime->models()[0].waits;
  queue.Configure(*runtime->models()[0].queue);
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<std::thread> threads;
  for (int i = 0; i < kShards; ++i) {
    shards.push_back(std::make_unique<Shard>(*runtime, static_cast<uint64_t>(i) + 1));
  }
  for (const auto& shard : shards) threads.emplace_back([&] { shard->Run(kRequests); });
  for (int i = 0; i < 50; ++i) {
    queue.Describe(net::Now(), 20);
    queue.Configure(*runtime->models()[0].queue);
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t served = 0;
  uint64_t left = 0;
  for (const auto& shard : shards) served += shard->served, left += shard->left;
  EXPECT_EQ(queue.waiting(), 0u);
  EXPECT_GT(served, uint64_t{kShards} * kRequests / 2);
  EXPECT_LE(served + left, uint64_t{kShards} * kRequests);
  EXPECT_GE(begun, 1);
  for (const router::Replica& replica : runtime->routes().replicas()) {
    EXPECT_EQ(runtime->load()[replica.id].load.requests(), 0);
  }
}

TEST(ModelQueue, OutlivesTheConfigurationThatMadeIt) {
  Learning learning;
  const auto before = *Runtime::Build(*Parse(kConfig).config, learning.learned(), net::Now());
  const auto after = *Runtime::Build(*Parse(kConfig).config, learning.learned(), net::Now());
  EXPECT_EQ(before->models()[0].waits, after->models()[0].waits);
}

// A request for a removed model must fail, not wait until its deadline.
TEST(ModelQueue, AWaiterOfARemovedModelIsWoken) {
  Learning learning;
  const auto runtime = *Runtime::Build(*Parse(kConfig).config, learning.learned(), net::Now());
  const std::shared_ptr<ModelQueue> queue = runtime->models()[0].waits;
  queue->Configure(*runtime->models()[0].queue);
  net::Loop loop{[](const std::exception_ptr& error) { std::rethrow_exception(error); }};
  const conf::TimePoint now = net::Now();
  QueuePlace place(
      queue, loop,
      {.request = "req", .tenant = "t", .band = "normal", .deadline = now + std::chrono::minutes(5)}, now);
  ASSERT_EQ(place.Enter(now).refused, router::QueueRefusal::kNone);
  queue->WakeNext(runtime->SupplyOf("removed"), now);
  std::optional<QueuePlace::Outcome> outcome;
  const auto wait = [](QueuePlace& of, std::optional<QueuePlace::Outcome>& result) -> net::Task<void> {
    result = co_await of.Wait();
  };
  loop.tasks.Spawn(wait(place, outcome));
  loop.Stop();
  loop.Run();
  EXPECT_EQ(outcome, QueuePlace::Outcome::kTurn);
  EXPECT_EQ(queue->waiting(), 0u);
}

struct BadQueue {
  const char* queue;
  const char* pointer;
  const char* message;
};

TEST(QueueConfig, InvalidValuesAreRefusedWithPathAndReason) {
  const BadQueue cases[] = {
      {"{max_requests: 0}", "/models/0/queue/max_requests", "1"},
      {"{max_wait: 0s}", "/models/0/queue/max_wait", "longer than 0"},
      {"{busy_for: -1s}", "/models/0/queue/busy_for", ""},
      {"{bands: []}", "/models/0/queue/bands", "empty"},
      {"{bands: [{name: a}, {name: a}]}", "/models/0/queue/bands", "given twice"},
      {"{bands: [{name: a, reserved: 0.6}, {name: b, reserved: 0.6}]}", "/models/0/queue/bands", "at most 1"},
      {"{bands: [{name: a}], default_band: b}", "/models/0/queue/default_band", "one of a"},
      {"{max_request: 5}", "/models/0/queue", "max_requests"},
  };
  for (const BadQueue& c : cases) {
    std::string text(kConfig);
    text.replace(text.find("{max_running"), std::string::npos, c.queue);
    const LoadResult result = Parse(text);
    ASSERT_EQ(result.problems.size(), 1u) << c.queue;
    EXPECT_TRUE(result.problems[0].pointer.starts_with(c.pointer)) << result.problems[0].pointer;
    EXPECT_NE(result.problems[0].message.find(c.message), std::string::npos) << result.problems[0].message;
  }
}

TEST(QueueConfig, APriorityMustNameABandOfSomeQueue) {
  std::string text(kConfig);
  text.replace(text.find("queue: {"), 8, "queue: {bands: [{name: interactive}, {name: batch}], ");
  const auto with = [&](std::string_view tenant) {
    std::string all = text;
    all.insert(all.find("name: t,") + 7, tenant);
    return Parse(all);
  };
  EXPECT_TRUE(with(", priority: interactive, weight: 3").problems.empty());
  EXPECT_TRUE(with(", priority: high").problems.empty());
  const LoadResult wrong = with(", priority: interactiv");
  ASSERT_EQ(wrong.problems.size(), 1u);
  EXPECT_EQ(wrong.problems[0].pointer, "/tenants/0/priority");
  EXPECT_NE(wrong.problems[0].message.find("interactive"), std::string::npos);
  EXPECT_EQ(with(", weight: 0").problems.size(), 1u);
  const config::Queue queue = with("").config->models[0].queue;
  EXPECT_EQ(queue.BandOf("interactive"), 0u);
  EXPECT_EQ(queue.BandOf("normal"), 1u)
      << "a request whose priority names no band waits in the least urgent one";
}

// The shipped file shows the defaults that hold without the section.
TEST(QueueConfig, TheReferenceShowsTheDefaults) {
  std::string text(kConfig);
  text.replace(text.find("{max_running"), std::string::npos,
               "{max_requests: 10000, max_bytes: 256MiB, max_wait: 5m, busy_for: 500ms}");
  const config::Queue shown = Parse(text).config->models[0].queue;
  const config::Queue usual;
  EXPECT_EQ(shown.max_requests, usual.max_requests);
  EXPECT_EQ(shown.max_bytes, usual.max_bytes);
  EXPECT_EQ(shown.max_wait, usual.max_wait);
  EXPECT_EQ(shown.busy_for, usual.busy_for);
}

TEST(QueueConfig, AModelHasAQueueUnlessItIsDisabled) {
  const auto queue_of = [](std::string_view engine, std::string_view queue) {
    return config::QueueOf(Parse(fmt::format(R"(
server:  {{listen: 127.0.0.1:8080, admin: 127.0.0.1:9090}}
tenants: [{{name: t, models: ["*"]}}]
models:  [{{name: m, endpoints: [{{url: "http://h:1", engine: {}}}]{}}}]
)",
                                             engine, queue))
                               .config->models[0])
        .has_value();
  };
  EXPECT_TRUE(queue_of("vllm", ", queue: {}"));
  EXPECT_TRUE(queue_of("vllm", ""));
  EXPECT_TRUE(queue_of("openai", ""));
  EXPECT_FALSE(queue_of("vllm", ", queue: {enabled: false}"));
}

}  // namespace
}  // namespace gateway
