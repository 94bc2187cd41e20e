// What a watch makes of an API server that forgets versions, drops and stalls watches, throttles and fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plugins/kubernetes/watch.h"
#include "tests/support/fake_kube.h"
#include "tests/support/loop_test.h"

namespace plugins::kubernetes {
namespace {

using namespace std::chrono_literals;
using gateway::net::Task;
using nlohmann::json;
using tests::Eventually;
using tests::FakeKube;
using tests::RunOnLoop;
using tests::TestLoop;

constexpr const char* kPods = "/api/v1/namespaces/runs/pods";

json PodNamed(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"labels", {{"app", "x"}}}}},
          {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}};
}

// A watch and what it has told: how often each object came, and what the last list and later events leave.
struct Follower {
  Follower(TestLoop& loop, FakeKube& server, Watch::Options options = {})
      : client(
            loop,
            [url = server.url()]() -> absl::StatusOr<Access> {
              Access access;
              access.server = url;
              return access;
            },
            1),
        watch(loop, client, Prepared(std::move(options)), HandlersOf()) {}

  static Watch::Options Prepared(Watch::Options options) {
    options.path = "/api/v1/pods";
    options.least_pause = 20ms;
    options.most_pause = 100ms;
    return options;
  }
  Watch::Handlers HandlersOf() {
    Watch::Handlers handlers;
    handlers.on_begin = [this] { known.clear(); };
    handlers.on_object = [this](const json& object) {
      known[object["metadata"]["name"]] = object["metadata"]["resourceVersion"];
      ++told[object["metadata"]["name"]];
    };
    handlers.on_deleted = [this](const json& object) { known.erase(object["metadata"]["name"]); };
    handlers.on_listed = [this] { ++lists; };
    return handlers;
  }
  Task<void> Close() {
    client.Abort();
    co_await watch.Close();
  }

  std::map<std::string, std::string> known;
  std::map<std::string, int> told;
  int lists = 0;
  Client client;
  Watch watch;
};

TEST(KubernetesWatch, APageThatExpiresBeginsTheListAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.SetCrowd(1'200, 10);
    server.expire_pages = 1;
    Follower follower(loop, server);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.lists == 1; }, 60s));
    EXPECT_EQ(follower.known.size(), 1'200u);
    EXPECT_EQ(server.Count("LIST /api/v1/pods"), 2 + 3) << "a page, its expired next one, and all three";
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesWatch, AVersionThatHasExpiredListsAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.Put(kPods, PodNamed("a"));
    server.Put(kPods, PodNamed("b"));
    Follower follower(loop, server);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    // It is gone while nobody watches, and no event will tell of it.
    server.refuse_watches = 1;
    server.DropWatches();
    server.Remove(kPods, "a");
    server.ForgetHistory();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.lists == 2; }));
    EXPECT_FALSE(follower.known.contains("a"));
    EXPECT_TRUE(follower.known.contains("b"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.watch.health().ok(); }));
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesWatch, OneThatBreaksGoesOnFromWhereItWas) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.Put(kPods, PodNamed("a"));
    Follower follower(loop, server);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    for (int i = 0; i < 5; ++i) {
      server.DropWatches();
      server.Put(kPods, PodNamed(fmt::format("b{}", i)));
      EXPECT_TRUE(
          co_await Eventually(loop, [&] { return follower.known.size() == 2u + static_cast<size_t>(i); }));
    }
    EXPECT_EQ(follower.lists, 1) << "it need not list again";
    for (const auto& [name, times] : follower.told) EXPECT_EQ(times, 1) << name;
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesWatch, BookmarksKeepTheVersionYoung) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    Follower follower(loop, server);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    server.AddNode("node-1", 8);  // another collection
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return follower.watch.version() == std::to_string(server.version()); }));
    EXPECT_EQ(follower.lists, 1);
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesWatch, OneThatStallsIsNoticedAndLosesNothing) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.Put(kPods, PodNamed("a"));
    Watch::Options options;
    options.turn = 1s;
    options.patience = 300ms;
    Follower follower(loop, server, options);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    server.stall = true;
    server.Put(kPods, PodNamed("b"));
    const conf::TimePoint heard = follower.watch.heard_at();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.Count("WATCH") == 3; })) << "nobody noticed";
    EXPECT_EQ(follower.watch.heard_at(), heard) << "silence is no news";
    EXPECT_FALSE(follower.watch.health().ok()) << "what is known is old";
    EXPECT_FALSE(follower.known.contains("b"));
    server.EndStall();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.known.contains("b"); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.watch.health().ok(); }));
    EXPECT_EQ(follower.told["b"], 1);
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesWatch, AQuietOneThatABalancerCutsIsHealthy) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.Put(kPods, PodNamed("a"));
    Follower follower(loop, server);
    follower.watch.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    const conf::TimePoint heard = follower.watch.heard_at();
    for (int cut = 1; cut <= 5; ++cut) {
      server.DropWatches();
      EXPECT_TRUE(co_await Eventually(loop, [&] { return server.Count("WATCH") == cut + 1; }, 2s));
      EXPECT_TRUE(follower.watch.health().ok()) << follower.watch.health();
      EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 1; }));
    }
    EXPECT_EQ(follower.watch.heard_at(), heard) << "silence is no news";
    EXPECT_EQ(follower.lists, 1);
    // A server that was away is there again, though nothing happens.
    server.refuse_watches = 5;
    server.DropWatches();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !follower.watch.health().ok(); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.watch.health().ok(); }));
    EXPECT_EQ(follower.watch.heard_at(), heard);
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesClient, OfALargeAnswerItsEndIsKeptWhereThatIsWanted) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.answer = [](std::string_view, std::string_view) {
      return std::optional(std::pair(200, json(std::string(1'000'000, 'x') + "the end")));
    };
    Follower follower(loop, server);
    Request request;
    request.path = "/api/v1/nodes/node-1";
    request.max_answer = 1000;
    request.keep_end = 1000;
    const auto answer = co_await follower.client.Ask(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_GE(answer.value_or("").size(), 1000u);
    EXPECT_LE(answer.value_or("").size(), 2000u);
    EXPECT_THAT(answer.value_or(""), testing::HasSubstr("the end"));
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesClient, ThrottlingAndErrorsAreTriedAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.AddNode("node-1", 8);
    Follower follower(loop, server);
    server.throttle = 1;
    server.fail = 1;
    const auto node = co_await follower.client.Get("/api/v1/nodes/node-1");
    EXPECT_TRUE(node.ok()) << node.status();
    EXPECT_EQ(server.Count("GET /api/v1/nodes/node-1"), 3);
    const auto absent = co_await follower.client.Get("/api/v1/nodes/node-2");
    EXPECT_TRUE(absl::IsNotFound(absent.status())) << absent.status();
    EXPECT_THAT(std::string(absent.status().message()), testing::HasSubstr("node-2"));
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesClient, ACreationWhoseAnswerWasLostIsMadeOnce) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    Follower follower(loop, server);
    server.lose_answers = 1;
    const auto created = co_await follower.client.Create(kPods, PodNamed("a"));
    EXPECT_TRUE(created.ok() || absl::IsAlreadyExists(created.status()) ||
                absl::IsUnavailable(created.status()))
        << created.status();
    const auto second = co_await follower.client.Create(kPods, PodNamed("a"));
    EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
    EXPECT_EQ(server.All("pods").size(), 1u);
    co_await follower.Close();
    server.CloseAll();
  });
}

TEST(KubernetesClient, AnAnswerThatDoesNotComeInTimeIsUnavailable) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    server.AddNode("node-1", 8);
    server.delay = 2s;
    Follower follower(loop, server);
    Request request;
    request.path = "/api/v1/nodes/node-1";
    request.timeout = 300ms;
    const auto answer = co_await follower.client.Ask(request);
    EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
    co_await follower.Close();
    server.CloseAll();
  });
}

}  // namespace
}  // namespace plugins::kubernetes
