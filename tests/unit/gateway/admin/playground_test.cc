#include "gateway/admin/playground.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/http/server_connection.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::EndedRequest;
using gateway::FieldProblem;
using gateway::OnBehalf;
using gateway::admin::Playground;
using gateway::admin::PlaygroundBody;
using gateway::admin::ReadPlaygroundBody;
using gateway::net::Fd;
using gateway::net::Task;
using gateway::net::http::ConnectionLimits;
using gateway::net::http::ServerConnection;
using plugins::auth::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::AdminClient;
using tests::Reply;
using tests::SignedIn;
using tests::WithAdmin;
using tests::World;

constexpr const char* kPath = "/admin/v1/playground";
constexpr std::string_view kStream = "data: {\"choices\":[]}\n\ndata: [DONE]\n\n";

std::string Response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\ncontent-type: {}\r\nx-request-id: req_1\r\nx-tidegate-replica: a\r\nserver: engine\r\n"
      "content-length: {}\r\n\r\n{}",
      status, type, body.size(), body);
}

// Answers in a shard's place, always the same.
class FakeShard {
 public:
  explicit FakeShard(World& world) : world_(world) { world.operations.playground = &playground_; }

  std::string response = Response("200 OK", "text/event-stream; charset=utf-8", kStream);
  std::vector<std::string> payers;
  std::vector<std::string> actors;
  std::vector<std::string> requests;

 private:
  void Take(Fd end, OnBehalf caller) {
    payers.push_back(caller.tenant);
    actors.push_back(caller.actor);
    auto stream = gateway::net::StreamOf(world_.loop.io, std::move(end), caller.address);
    ASSERT_TRUE(stream.ok()) << stream.status();
    world_.loop.tasks.Spawn(Serve(*std::move(stream), std::move(caller)));
  }

  Task<void> Serve(std::unique_ptr<gateway::net::Stream> stream, OnBehalf caller) {
    ServerConnection connection(world_.loop, std::move(stream), limits_);
    EXPECT_EQ(co_await connection.ReadHead(), ServerConnection::Status::kOk);
    EXPECT_EQ(connection.head().target, "/v1/chat/completions");
    EXPECT_EQ(connection.head().Find("authorization"), "");
    EXPECT_EQ(co_await connection.ReadBody(1 << 20), ServerConnection::Status::kOk);
    requests.emplace_back(connection.body());
    co_await connection.Write(gateway::net::AsBuffer(response));
    EndedRequest ended{.request = "req_1", .replica = "a", .queue_us = 2000, .total_us = 90'000};
    ended.counts.input = 7;
    ended.counts.output = 3;
    ended.counts.ttft_us = 40'000;
    ended.counts.cost_micro_usd = 12;
    caller.Tell(std::move(ended));
    co_await connection.Shutdown();
  }

  World& world_;
  const ConnectionLimits limits_;
  Playground playground_{world_.loop,
                         [this](Fd end, OnBehalf caller) { Take(std::move(end), std::move(caller)); }};
};

std::vector<std::string> ProblemsOf(std::string_view text) {
  std::vector<std::string> fields;
  const auto read = ReadPlaygroundBody(text);
  if (const auto* const problems = std::get_if<std::vector<FieldProblem>>(&read)) {
    for (const FieldProblem& problem : *problems) fields.push_back(problem.field + ": " + problem.message);
  }
  return fields;
}

TEST(PlaygroundBody, TheRequestIsPassedOnAsItStands) {
  const auto read = ReadPlaygroundBody(
      R"({"tenant": "demo", "request": {"z": 1.50, "stream": true, "a": {"b": [1, {"c": "\u00e9"}]}}})");
  const auto* const body = std::get_if<PlaygroundBody>(&read);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ(body->tenant, "demo");
  EXPECT_EQ(body->request, R"({"z": 1.50, "stream": true, "a": {"b": [1, {"c": "\u00e9"}]}})");
  EXPECT_THAT(ProblemsOf(R"({"request": {"stream": true}})"), IsEmpty());
}

TEST(PlaygroundBody, EachProblemIsNamed) {
  EXPECT_THAT(ProblemsOf(""), ElementsAre(HasSubstr("one JSON object")));
  EXPECT_THAT(ProblemsOf("[]"), ElementsAre(HasSubstr("one JSON object")));
  EXPECT_THAT(ProblemsOf(R"({"request": {"stream": true}} x)"), ElementsAre(HasSubstr("one JSON object")));
  EXPECT_THAT(ProblemsOf("{}"), ElementsAre(HasSubstr("request: is missing")));
  EXPECT_THAT(ProblemsOf(R"({"request": 5})"), ElementsAre(HasSubstr("request: must be an object")));
  EXPECT_THAT(ProblemsOf(R"({"tenant": 5, "request": {"stream": true}})"),
              ElementsAre(HasSubstr("tenant: must be a string")));
  EXPECT_THAT(ProblemsOf(R"({"request": {}})"), ElementsAre(HasSubstr("request.stream: must be true")));
  EXPECT_THAT(ProblemsOf(R"({"request": {"stream": "yes"}})"),
              ElementsAre(HasSubstr("request.stream: must be true")));
  EXPECT_THAT(ProblemsOf(R"({"model": "chat-small"})"), ElementsAre(HasSubstr("model: is not a member")));
  EXPECT_THAT(ProblemsOf(R"({"request": {"stream": true}, "request": {"stream": true}})"),
              ElementsAre(HasSubstr("request: is given twice")));
}

TEST(Playground, AMemberIsAnsweredAndTheirTenantPays) {
  World world;
  FakeShard shard(world);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada =
        co_await client.SignIn({.id = "person:ada", .roles = {{Role::kMember, "demo/search"}}});
    const Reply reply =
        co_await client.CallAs(ada, "POST", kPath, R"({"request": {"model": "m", "stream": true}})");
    EXPECT_EQ(reply.status, 200) << reply.text;
    EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream");
    EXPECT_EQ(reply.headers.at("x-request-id"), "req_1");
    EXPECT_EQ(reply.headers.at("x-tidegate-replica"), "a");
    EXPECT_FALSE(reply.headers.contains("server"));
    EXPECT_THAT(reply.text, testing::StartsWith(std::string(kStream)));
    const size_t at = reply.text.find("event: summary\ndata: ");
    EXPECT_NE(at, std::string::npos) << reply.text;
    if (at == std::string::npos) co_return;
    const tests::json summary = tests::json::parse(reply.text.substr(at + 21));
    EXPECT_EQ(summary["tenant"], "demo/search");
    EXPECT_EQ(summary["ttft_ms"], 40);
    EXPECT_EQ(summary["duration_ms"], 90);
    EXPECT_EQ(summary["queue_ms"], 2);
    EXPECT_EQ(summary["output_tokens"], 3);
    EXPECT_EQ(summary["cost_micro_usd"], 12);
  });
  EXPECT_THAT(shard.payers, ElementsAre("demo/search"));
  EXPECT_THAT(shard.actors, ElementsAre("person:ada"));
  EXPECT_THAT(shard.requests, ElementsAre(R"({"model": "m", "stream": true})"));
}

TEST(Playground, ARefusalOfThePipelineIsTheAnswer) {
  World world;
  FakeShard shard(world);
  shard.response = Response("429 Too Many Requests", "application/json",
                            R"({"error":{"code":"rate_limit_exceeded","message":"too many"}})");
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn ada =
        co_await client.SignIn({.id = "person:ada", .roles = {{Role::kMember, "demo/search"}}});
    const Reply reply = co_await client.CallAs(ada, "POST", kPath, R"({"request": {"stream": true}})");
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.code(), "rate_limit_exceeded");
  });
}

TEST(Playground, NobodyAsksInTheNameOfATenantThatIsNotTheirs) {
  World world;
  FakeShard shard(world);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    Reply reply =
        co_await client.CallAs(member, "POST", kPath, R"({"tenant": "demo", "request": {"stream": true}})");
    EXPECT_EQ(reply.status, 403);
    EXPECT_THAT(reply.message(), HasSubstr("you may use: demo/search"));
    const Reply unknown = co_await client.CallAs(member, "POST", kPath,
                                                 R"({"tenant": "nowhere", "request": {"stream": true}})");
    EXPECT_EQ(unknown.status, 403) << "as one of others";

    const SignedIn viewer = co_await client.SignIn({.id = "person:v", .roles = {{Role::kViewer, {}}}});
    reply =
        co_await client.CallAs(viewer, "POST", kPath, R"({"tenant": "demo", "request": {"stream": true}})");
    EXPECT_EQ(reply.status, 403);
    EXPECT_THAT(reply.message(), HasSubstr("this call needs"));

    const SignedIn other = co_await client.SignIn({.id = "person:o", .roles = {{Role::kLead, "gone"}}});
    reply = co_await client.CallAs(other, "POST", kPath, R"({"request": {"stream": true}})");
    EXPECT_GE(reply.status, 400);
    EXPECT_THAT(reply.text, Not(HasSubstr("demo")));
  });
  EXPECT_THAT(shard.payers, IsEmpty());
}

TEST(Playground, WhoHasSeveralTenantsNamesOne) {
  World world;
  FakeShard shard(world);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn lead = co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo"}}});
    const Reply reply = co_await client.CallAs(lead, "POST", kPath, R"({"request": {"stream": true}})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.message(), HasSubstr("demo, demo/search"));
    const Reply named =
        co_await client.CallAs(lead, "POST", kPath, R"({"tenant": "search", "request": {"stream": true}})");
    EXPECT_EQ(named.status, 200) << named.text;
  });
  EXPECT_THAT(shard.payers, ElementsAre("demo/search"));
}

TEST(Playground, WhoMayNotAskSendsNoLargeBody) {
  World world;
  FakeShard shard(world);
  const std::string large =
      R"({"request": {"stream": true, "user": ")" + std::string(300'000, 'x') + R"("}})";
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    EXPECT_EQ((co_await client.CallAs(member, "POST", kPath, large)).status, 200);
    const SignedIn viewer = co_await client.SignIn({.id = "person:v", .roles = {{Role::kViewer, {}}}});
    EXPECT_EQ((co_await client.CallAs(viewer, "POST", kPath, large)).status, 413);
  });
}

}  // namespace
