// The overview and the feed of events: what each caller sees, and how a follower goes on.
#include "gateway/admin/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/admin/leader_calls.h"
#include "gateway/control/models/model_orders.h"
#include "gateway/store/kinds.h"
#include "tests/support/memory_store.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::net::Task;
using plugins::auth::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using tests::AdminClient;
using tests::Reply;
using tests::SignedIn;
using tests::WithAdmin;
using tests::World;

const gateway::Person kLead = {.id = "person:ada", .name = "Ada", .roles = {{Role::kLead, "demo/search"}}};

gateway::ledger::Event Started(const std::string& replica, const std::string& model) {
  return {.kind = gateway::ledger::Kind::kAction,
          .action = "replica.launch",
          .actor = "control",
          .subject = replica,
          .detail = R"({"model":")" + model + R"(","reason":"2 wanted, 1 there"})"};
}

// Ends the feed once somebody follows it and that has happened.
void EndAfter(World& world, std::function<void()> happens) {
  world.loop.tasks.Spawn([](World& of, std::function<void()> then) -> Task<void> {
    gateway::net::Sleep pause(of.loop.watchdog);
    while (of.events.followers() == 0) co_await pause.For(std::chrono::milliseconds(10));
    then();
    of.events.Close();
  }(world, std::move(happens)));
}

TEST(AdminOverview, ShowsModelsAndProblems) {
  World world;
  world.reloads.last_ok = false;
  const std::string viewer = world.AdminKey(Role::kViewer);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const Reply reply = co_await client.Call("GET", "/admin/v1/overview", viewer);
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_THAT(reply.body["models"], SizeIs(2));
    EXPECT_EQ(reply.body["models"][0]["model"], "chat-large");
    EXPECT_EQ(reply.body["models"][0]["scaled"], false);
    EXPECT_EQ(reply.body["devices"]["total"], 0);
    EXPECT_EQ(reply.body["jobs"]["running"], 0);
    EXPECT_EQ(reply.body["conditions"][0]["part"], "config") << reply.text;
  });
}

TEST(AdminOverview, ALeadSeesTheModelsOfTheOwnTenantOnly) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kLead);
    const Reply reply = co_await client.CallAs(lead, "GET", "/admin/v1/overview");
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_THAT(reply.body["models"], SizeIs(1));
    EXPECT_THAT(reply.text, AllOf(HasSubstr("chat-small"), Not(HasSubstr("chat-large"))));
  });
}

TEST(AdminEvents, AFollowerHearsOfActionsAndChangedLists) {
  World world;
  const std::string viewer = world.AdminKey(Role::kViewer);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EndAfter(world, [&] {
      world.events.Note(Started("r-chat-large-1", "chat-large"));
      world.events.Changed("keys");
    });
    const Reply reply = co_await client.Call("GET", "/admin/v1/events", viewer);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream");
    EXPECT_THAT(reply.text, AllOf(HasSubstr("event: overview\n"), HasSubstr("event: action\n"),
                                  HasSubstr(R"("reason":"2 wanted, 1 there")"),
                                  HasSubstr(R"(data: {"kind":"replicas","id":"r-chat-large-1"})"),
                                  HasSubstr(R"(data: {"kind":"keys","id":null})")));
    EXPECT_THAT(reply.text, Not(HasSubstr("event: reset")));
  });
}

TEST(AdminEvents, AFollowerHearsOfActionsWhileTheLeadingGatewayDoesNotAnswer) {
  World world;
  const std::string viewer = world.AdminKey(Role::kViewer);
  tests::MemoryStore store;
  gateway::admin::LeaderCalls leader(world.loop, store,
                                     {.name = "b", .leads = [] { return false; }, .serve = nullptr});
  world.operations.leader_calls = [&] { return &leader; };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const conf::TimePoint began = gateway::net::Now();
    EndAfter(world, [&] { world.events.Note(Started("r-chat-large-1", "chat-large")); });
    const Reply reply = co_await client.Call("GET", "/admin/v1/events", viewer);
    EXPECT_THAT(reply.text, HasSubstr("event: action\n"));
    EXPECT_LT(gateway::net::Now() - began, gateway::admin::LeaderCalls::kPatience / 2);
    EXPECT_EQ(store.Count(gateway::store::kLeaderCall), 1u) << "it was asked";
    leader.Stop();
    EXPECT_TRUE(co_await tests::Eventually(world.loop,
                                           [&] { return store.Count(gateway::store::kLeaderCall) == 0; }));
  });
}

TEST(AdminEvents, ALeadGetsNoEventsOfOtherTenants) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kLead);
    EndAfter(world, [&] {
      world.events.Note(Started("r-chat-large-1", "chat-large"));
      world.events.Note(Started("r-chat-small-1", "chat-small"));
    });
    const Reply reply = co_await client.CallAs(lead, "GET", "/admin/v1/events");
    EXPECT_THAT(reply.text, AllOf(HasSubstr("r-chat-small-1"), Not(HasSubstr("chat-large"))));
  });
}

TEST(AdminEvents, AFollowerContinuesAfterItsLastId) {
  World world;
  const std::string viewer = world.AdminKey(Role::kViewer);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    world.events.Changed("keys");
    const std::string first = world.events.last_id();
    world.events.Changed("nodes");
    EndAfter(world, [] {});
    const Reply reply = co_await client.Call("GET", "/admin/v1/events?after=" + first, viewer);
    EXPECT_THAT(reply.text, AllOf(HasSubstr(R"("kind":"nodes")"), Not(HasSubstr(R"("kind":"keys")"))));
    EXPECT_THAT(reply.text, Not(HasSubstr("event: reset")));
  });
}

TEST(AdminEvents, AnIdThatIsGoneMakesTheFollowerReadAllAgain) {
  World world;
  const std::string viewer = world.AdminKey(Role::kViewer);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EndAfter(world, [] {});
    const Reply reply = co_await client.Call("GET", "/admin/v1/events?after=earlier-7", viewer);
    EXPECT_THAT(reply.text, HasSubstr("event: reset\n"));
  });
}

TEST(AdminEvents, TheEndOfASessionEndsItsFollowers) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn(kLead);
    const std::string session = world.sessions->List(gateway::net::Now()).front().id;
    world.loop.tasks.Spawn([](World& of, std::string id) -> Task<void> {
      gateway::net::Sleep pause(of.loop.watchdog);
      while (of.events.followers() == 0) co_await pause.For(std::chrono::milliseconds(10));
      EXPECT_TRUE((co_await of.sessions->End(std::move(id))).ok());
    }(world, session));
    const Reply reply = co_await client.CallAs(lead, "GET", "/admin/v1/events");
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(co_await tests::Eventually(world.loop, [&] { return world.events.followers() == 0; }));
  });
}

class AdminOrders : public testing::Test {
 protected:
  AdminOrders() {
    EXPECT_TRUE(world.Await(orders.Start()).ok());
    world.operations.model_orders = &orders;
  }
  ~AdminOrders() override { orders.Stop(); }

  World world;
  std::vector<std::string> records;
  gateway::control::ModelOrders orders{
      world.loop, *world.store, world.shared.switches,
      gateway::control::ModelOrders::Environment{
          .record = [this](gateway::ledger::Event event) -> Task<absl::Status> {
            records.push_back(event.action + " " + event.subject + " " + event.detail);
            co_return absl::OkStatus();
          }}};
};

TEST_F(AdminOrders, AnOperatorPausesAndResumesAModel) {
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator);
  const gateway::ModelRuntime& model = world.runtime->model(*world.runtime->routes().Find("chat-small"));
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string path = "/admin/v1/models/chat-small";
    EXPECT_EQ((co_await client.Call("POST", path + ":pause", viewer, "{}")).status, 403);
    EXPECT_EQ((co_await client.Call("POST", path + ":resume", op, "{}")).status, 409);
    const Reply paused = co_await client.Call("POST", path + ":pause", op, R"({"reason":"new weights"})");
    EXPECT_EQ(paused.status, 200) << paused.text;
    EXPECT_EQ(paused.body["paused"]["reason"], "new weights");
    EXPECT_EQ(model.WhyPaused(), "chat-small takes no new requests: an operator has paused it: new weights");
    const Reply list = co_await client.Call("GET", "/admin/v1/models", viewer);
    EXPECT_EQ(list.body["data"][0]["paused"]["reason"], "new weights") << list.text;
    EXPECT_EQ(list.body["data"][1]["paused"], tests::json());
    EXPECT_EQ((co_await client.Call("POST", path + ":resume", op, "{}")).status, 200);
    EXPECT_EQ(model.WhyPaused(), std::nullopt);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/models/none:pause", op, "{}")).status, 404);
  });
  EXPECT_THAT(records, testing::ElementsAre(R"(model.pause chat-small {"reason":"new weights"})",
                                            R"(model.resume chat-small {"reason":""})"));
}

TEST_F(AdminOrders, AHoldTakesATimeAndAModelThatAPolicyScales) {
  const std::string op = world.AdminKey(Role::kOperator);
  gateway::control::Status status;
  status.models.emplace_back().model = "chat-small";
  status.models.back().wanted = 3;
  world.operations.scaling = [&] { return status; };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/models/chat-large:hold", op, "{}")).status, 409);
    const std::string path = "/admin/v1/models/chat-small";
    EXPECT_EQ((co_await client.Call("POST", path + ":hold", op, R"({"for":"soon"})")).status, 400);
    const Reply held = co_await client.Call("POST", path + ":hold", op, R"({"for":"30m"})");
    EXPECT_EQ(held.status, 200) << held.text;
    EXPECT_EQ(held.body["held"]["replicas"], 3);
    EXPECT_TRUE(held.body["held"]["until"].is_string());
    EXPECT_EQ((co_await client.Call("POST", path + ":release", op, "{}")).status, 200);
    EXPECT_EQ((co_await client.Call("POST", path + ":release", op, "{}")).status, 409);
  });
}

}  // namespace
