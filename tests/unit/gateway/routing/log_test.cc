#include "gateway/routing/log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "gateway/net/clock.h"
#include "gateway/routing/parse.h"
#include "gateway/shard/runtime.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::routing {
namespace {

// Waits for something that the log's thread does soon.
template <class Condition>
bool Soon(Condition condition) {
  const conf::TimePoint until = net::Now() + std::chrono::seconds(10);
  while (!condition() && net::Now() < until) std::this_thread::yield();
  return condition();
}

struct Logging : testing::Test {
  static std::shared_ptr<const Runtime> Build(const Learned& learned) {
    return *Runtime::Build(*Parse(With({})).config, learned, net::Now());
  }
  RoutedRequest Request(std::string id, size_t seen = 0) const {
    RoutedRequest routed;
    routed.routes = {{runtime, &runtime->routes()}, &runtime->names()};
    routed.request = std::move(id);
    router::PickTrace& pick = routed.picks.emplace_back();
    pick.policy = router::PolicyKind::kCost;
    pick.scored.resize(seen);
    pick.reason = "a test's";
    return routed;
  }

  tests::TempDir dir;
  router::limits::LimitTree limits;
  router::ReplicaStates replicas;
  TokenEstimates estimates;
  ModelQueues queues;
  ScalingHintsByModel scaling_hints;
  ModelSwitches switches;
  std::shared_ptr<const Runtime> runtime =
      Build({limits, replicas, estimates, queues, scaling_hints, switches});
};

TEST_F(Logging, QueuedRecordsAreWrittenBeforeItEnds) {
  const std::string state = dir / "";
  {
    RoutingLog log(state);
    for (int i = 0; i < 500; ++i) log.Add(Request("req_" + std::to_string(i), 3));
  }
  std::ifstream in(LogPath(state, 0));
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const auto logged = ParseRoute(line);
    ASSERT_TRUE(logged.ok()) << logged.status() << line;
    EXPECT_EQ((**logged).request, "req_" + std::to_string(lines));
    EXPECT_EQ((**logged).picks[0].trace.scored.size(), 3u);
  }
  EXPECT_EQ(lines, 500);
}

TEST_F(Logging, RecordsBeyondTheLimitAreDroppedAndCounted) {
  RoutingLog log(dir / "");
  log.Add(Request("large", RoutingLog::kMaxQueuedBytes / sizeof(router::ScoredCandidate) + 1));
  EXPECT_EQ(log.stats().dropped_queue, 1u);
  log.Add(Request("small"));
  EXPECT_TRUE(Soon([&] { return log.stats().written == 1; }));
}

TEST_F(Logging, RecordsThatTheDiskRefusesAreDroppedAndCounted) {
  RoutingLog log(dir / "no/such/folder");
  log.Add(Request("lost"));
  EXPECT_TRUE(Soon([&] { return log.stats().dropped_write == 1; }));
}

TEST(ParseRoute, OtherLinesAreAnError) {
  for (const char* line : {"", "{", "[]", "{}", R"({"kind":"route"})", R"({"kind":"route","picks":[{}]})"}) {
    EXPECT_FALSE(ParseRoute(line).ok()) << line;
  }
  const auto other = ParseRoute(R"({"kind":"shadow"})");
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(*other);
}

}  // namespace
}  // namespace gateway::routing
