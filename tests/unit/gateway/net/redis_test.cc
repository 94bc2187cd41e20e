#include "gateway/net/redis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/text.h"
#include "tests/support/fake_redis.h"
#include "tests/support/redis_server.h"
#include "tests/support/tls_files.h"

namespace gateway::net {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::Eventually;
using tests::FakeRedis;
using tests::RedisServer;
using tests::RunOnLoop;
using tests::TestLoop;
using Breaker = RedisClient::Breaker;
using Type = RedisReply::Type;

std::string Message(const RedisClient::Reply& reply) {
  return std::string(conf::Std(reply.status().message()));
}

RedisClient::Options Fast(Remote remote) {
  RedisClient::Options options;
  options.remote = std::move(remote);
  options.timeout = 10s;
  options.connect_timeout = 10s;
  options.min_backoff = 20ms;
  options.max_backoff = 50ms;
  return options;
}

// Where answers that are late are what is tried; those that are not, on a machine that stands still, may be.
RedisClient::Options Impatient(Remote remote) {
  RedisClient::Options options = Fast(std::move(remote));
  options.timeout = 200ms;
  options.connect_timeout = 200ms;
  return options;
}

Task<bool> ComesToAnswer(TestLoop& loop, RedisClient& client) {
  for (int i = 0; i < 20; ++i) {
    if (!co_await Eventually(loop, [&] { return client.state().connected; })) break;
    if ((co_await client.Command("PING")).ok()) co_return true;
  }
  co_return false;
}

std::optional<std::string> Echo(const RedisCommand& command) {
  return fmt::format("${}\r\n{}\r\n", command.back().size(), command.back());
}

RedisReply Parse(std::string_view bytes, size_t step) {
  RedisReader reader(1 << 20);
  RedisReply reply;
  for (size_t at = 0; at < bytes.size(); at += step) {
    EXPECT_EQ(reader.Take(reply), RedisReader::Next::kMore);
    reader.Feed(bytes.substr(at, step));
  }
  EXPECT_EQ(reader.Take(reply), RedisReader::Next::kReply);
  return reply;
}

TEST(RedisProtocol, ReadsEveryTypeWhateverTheSplit) {
  const std::string bytes = "*6\r\n:-7\r\n+OK\r\n-ERR no\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n:1\r\n*0\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const RedisReply reply = Parse(bytes, step);
    ASSERT_EQ(reply.elements.size(), 6u);
    EXPECT_EQ(reply.elements[0].integer, -7);
    EXPECT_EQ(reply.elements[1].type, Type::kStatus);
    EXPECT_TRUE(reply.elements[2].is_error());
    EXPECT_EQ(reply.elements[2].text, "ERR no");
    EXPECT_EQ(reply.elements[3].text, "a\r\n");
    EXPECT_EQ(reply.elements[4].type, Type::kNil);
    ASSERT_EQ(reply.elements[5].elements.size(), 2u);
    EXPECT_EQ(reply.elements[5].elements[1].type, Type::kArray);
  }
}

TEST(RedisProtocol, WritesBinarySafeCommands) {
  std::string bytes;
  AppendRedisCommand(bytes, {"SET", "k", std::string("a\0\r\nb", 5)});
  EXPECT_EQ(bytes, std::string("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\0\r\nb\r\n", 31));
}

TEST(RedisProtocol, RefusesMalformedOrTooLargeReplies) {
  for (const char* bytes : {"HTTP/1.1 400\r\n", "*100000\r\n", "*2147483647\r\n", "*-5\r\n"}) {
    RedisReader reader(1 << 20);
    RedisReply reply;
    reader.Feed(bytes);
    EXPECT_EQ(reader.Take(reply), RedisReader::Next::kBroken) << bytes;
    EXPECT_FALSE(reader.error().empty());
  }
  RedisReader reader(100);
  RedisReply reply;
  reader.Feed("$1000\r\n" + std::string(200, 'x'));
  EXPECT_EQ(reader.Take(reply), RedisReader::Next::kBroken);
  EXPECT_EQ(reader.Take(reply), RedisReader::Next::kBroken);
  EXPECT_THAT(reader.error(), HasSubstr("larger than 100"));
}

TEST(RedisProtocol, AReplyIsAsLargeAsAllOfItsElementsWhateverTheSplit) {
  std::string array = "*20\r\n";
  for (int i = 0; i < 20; ++i) array += "$10\r\n0123456789\r\n";
  const std::string bytes = "+OK\r\n" + array;
  for (const size_t step : {size_t{1}, size_t{30}, bytes.size()}) {
    for (const size_t most : {size_t{100}, array.size() - 1, array.size()}) {
      RedisReader reader(most);
      std::vector<RedisReply> replies;
      RedisReader::Next next = RedisReader::Next::kMore;
      for (size_t at = 0; at < bytes.size() && next != RedisReader::Next::kBroken; at += step) {
        reader.Feed(bytes.substr(at, step));
        for (RedisReply reply; (next = reader.Take(reply)) == RedisReader::Next::kReply;)
          replies.push_back(reply);
      }
      EXPECT_EQ(next == RedisReader::Next::kBroken, most < array.size()) << step << " " << most;
      EXPECT_EQ(replies.size(), most < array.size() ? 1u : 2u);
    }
  }
}

TEST(RedisClient, PipelinesInOneWriteAndAnswersInOrder) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>(Echo);
    server.Listen();
    RedisClient client(loop, Fast(server.remote()));
    EXPECT_TRUE((co_await client.Command("ECHO", "first")).ok());
    const size_t reads = server.reads;
    std::vector<RedisCommand> commands;
    for (int i = 0; i < 100; ++i) commands.push_back({"ECHO", std::to_string(i)});
    const auto replies = co_await client.Pipeline(commands);
    EXPECT_EQ(server.reads, reads + 1);
    for (size_t i = 0; i < replies.size(); ++i) EXPECT_EQ(replies[i]->text, std::to_string(i));
    EXPECT_EQ(client.state().commands, 101u);
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, AuthenticatesAndSelectsBeforeTheFirstCommand) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>([](const RedisCommand&) { return "+OK\r\n"; });
    server.Listen();
    RedisClient::Options options = Fast(server.remote());
    options.username = "tide";
    options.password = "s3cret";
    options.database = 4;
    RedisClient client(loop, options);
    EXPECT_TRUE((co_await client.Command("SET", "a", "b")).ok());
    const std::vector<RedisCommand> expected{{"AUTH", "tide", "s3cret"}, {"SELECT", "4"}, {"SET", "a", "b"}};
    EXPECT_EQ(server.seen, expected);
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, OpensItsBreakerWhenAuthIsRefusedAndKeepsTheSecretToItself) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>(
        [](const RedisCommand&) { return "-WRONGPASS invalid username-password pair\r\n"; });
    server.Listen();
    RedisClient::Options options = Fast(server.remote());
    options.password = "s3cret";
    RedisClient client(loop, options);
    const auto reply = co_await client.Command("GET", "a");
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(reply), HasSubstr("AUTH was refused: WRONGPASS"));
    EXPECT_THAT(Message(reply), Not(HasSubstr("s3cret")));
    EXPECT_NE(client.state().breaker, Breaker::kClosed);
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, TimesOutRefusesAtOnceAndComesBack) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>(Echo);
    server.Listen();
    RedisClient::Options options = Impatient(server.remote());
    options.min_backoff = options.max_backoff = 500ms;
    RedisClient client(loop, options);
    EXPECT_TRUE(co_await ComesToAnswer(loop, client));
    const uint64_t timeouts = client.state().timeouts;
    server.silent = true;
    const conf::TimePoint start = Now();
    const uint64_t failures = client.state().failures;
    const auto late = co_await client.Command("ECHO", "b");
    EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_GE(Now() - start, 200ms);
    EXPECT_EQ(client.state().timeouts, timeouts + 1);
    EXPECT_EQ(client.state().failures, failures + 1) << "it is not tried on another connection";
    EXPECT_EQ(client.state().breaker, Breaker::kOpen);
    EXPECT_THAT(client.state().reason, HasSubstr("no answer to a command within 200ms"));

    const auto unsent = co_await client.Command("ECHO", "c");
    EXPECT_EQ(unsent.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Message(unsent).find(client.address()), Message(unsent).rfind(client.address()))
        << "it names the server once: " << Message(unsent);
    EXPECT_GE(client.state().refused, 1u) << "at once: it was not sent at all";

    // A server that accepts and says nothing is not one that is back.
    EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().breaker == Breaker::kHalfOpen; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().breaker == Breaker::kOpen; }));
    EXPECT_THAT(client.state().reason, HasSubstr("no connection that answers within 200ms"));
    server.silent = false;
    EXPECT_TRUE(co_await ComesToAnswer(loop, client));
    EXPECT_EQ(client.state().reason, "");
    EXPECT_GT(client.state().timeouts, timeouts);
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, ReconnectsAtOnceWhenAConnectionThatServedIsCut) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>(Echo);
    server.Listen();
    RedisClient::Options options = Fast(server.remote());
    options.min_backoff = options.max_backoff = 60s;  // would not come back in this test
    RedisClient client(loop, options);
    EXPECT_TRUE((co_await client.Command("ECHO", "a")).ok());
    server.Cut();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().connects == 2; }));
    EXPECT_TRUE((co_await client.Command("ECHO", "b")).ok());
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, QueuesWithinBoundsWhileConnectingAndFailsLateCommands) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>(Echo);
    server.Listen();
    server.silent = true;
    RedisClient::Options options = Fast(server.remote());
    options.connect_timeout = 1s;
    options.timeout = 100ms;
    options.max_pending_bytes = 1000;
    RedisClient client(loop, options);
    const auto refused = co_await client.Command("SET", "k", std::string(2000, 'x'));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(client.state().dropped, 1u);
    // The connection is not up: the command waits its time in the queue, and is gone from it afterwards.
    EXPECT_EQ((co_await client.Command("ECHO", "late")).status().code(), absl::StatusCode::kDeadlineExceeded);
    server.silent = false;
    server.Cut();
    EXPECT_TRUE(co_await ComesToAnswer(loop, client));
    EXPECT_THAT(server.seen, Each(RedisCommand{"PING"}));
    co_await client.Stop();
    server.Stop();
  });
}

TEST(RedisClient, EndsAConnectionThatAnswersWithoutBeingAskedOrNotInResp) {
  for (const char* answer : {"+OK\r\n+OK\r\n", "HTTP/1.1 200 OK\r\n\r\n"}) {
    RunOnLoop([answer](TestLoop& loop) -> Task<void> {
      FakeRedis& server = loop.Make<FakeRedis>([answer](const RedisCommand&) { return answer; });
      server.Listen();
      RedisClient client(loop, Fast(server.remote()));
      (void)co_await client.Command("GET", "a");
      EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().failures >= 1; })) << answer;
      co_await client.Stop();
      server.Stop();
    });
  }
}

TEST(RedisClient, SpeaksTlsAndVerifiesTheServer) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::TlsFiles files;
    TlsContext::ServerFiles server_files;
    server_files.certificate = files.certificate();
    server_files.key = files.key();
    FakeRedis& server = loop.Make<FakeRedis>(Echo);
    server.Listen(*TlsContext::Server(server_files));
    for (const bool trusted : {true, false}) {
      TlsContext::ClientFiles client_files;
      if (trusted) client_files.ca = files.certificate();
      RedisClient::Options options = Fast(server.remote());
      options.connect_timeout = options.timeout = 2s;
      options.remote.tls = *TlsContext::Client(client_files);
      RedisClient client(loop, options);
      for (const size_t size : {1u, 300'000u}) {
        const auto reply = co_await client.Command("ECHO", std::string(size, 'x'));
        EXPECT_EQ(reply.ok(), trusted) << reply.status();
        if (reply.ok()) EXPECT_EQ(reply->text.size(), size);
      }
      if (!trusted) EXPECT_THAT(client.state().reason, HasSubstr("certificate"));
      co_await client.Stop();
    }
    server.Stop();
  });
}

TEST(RedisClient, StopFailsPendingCommandsInEveryState) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeRedis& server = loop.Make<FakeRedis>([](const RedisCommand&) { return std::nullopt; });
    server.Listen();
    for (const bool connected : {false, true}) {
      RedisClient client(loop, Fast(server.remote()));
      if (connected) {
        EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().connected; }));
      }
      absl::Status status;
      const auto ask = [&]() -> Task<void> { status = (co_await client.Command("GET", "a")).status(); };
      loop.tasks.Spawn(ask());
      co_await client.Stop();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    }
    server.Stop();
    RedisClient refused(loop, Fast(server.remote()));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return refused.state().breaker == Breaker::kOpen; }));
    co_await refused.Stop();
  });
}

// With a real server.

Remote Of(const RedisServer& server) {
  return {"127.0.0.1", std::to_string(server.port()), nullptr, {}};
}

TEST(RealRedis, IsSpokenToWithAuthAndAnotherDatabase) {
  if (!RedisServer::Installed()) GTEST_SKIP() << "no redis-server";
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    RedisServer server({"--requirepass", "s3cret"});
    EXPECT_TRUE(server.Start());
    RedisClient::Options options = Fast(Of(server));
    options.password = "s3cret";
    options.database = 3;
    RedisClient client(loop, options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return client.state().connected; }));
    std::vector<RedisCommand> commands{{"SET", "k", "v"}, {"GET", "k"}, {"INCR", "n"}, {"LPUSH", "n", "x"}};
    const auto replies = co_await client.Pipeline(commands);
    EXPECT_EQ(replies[0]->text, "OK");
    EXPECT_EQ(replies[1]->text, "v");
    EXPECT_EQ(replies[2]->integer, 1);
    EXPECT_TRUE(replies[3]->is_error());
    co_await client.Stop();
  });
}

TEST(RealRedis, StoppedSlowedAndRestartedIsFoundAgainAndNeverWaitedForLonger) {
  if (!RedisServer::Installed()) GTEST_SKIP() << "no redis-server";
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    RedisServer server;
    EXPECT_TRUE(server.Start());
    RedisClient client(loop, Impatient(Of(server)));
    const std::vector<std::pair<std::string, std::function<void()>>> blows{
        {"SIGSTOP", [&] { server.Signal(SIGSTOP); }},
        {"SIGKILL", [&] { server.Kill(); }},
    };
    const std::vector<std::function<void()>> cures{[&] { server.Signal(SIGCONT); }, [&] { server.Start(); }};
    for (size_t i = 0; i < blows.size(); ++i) {
      EXPECT_TRUE(co_await ComesToAnswer(loop, client)) << blows[i].first;
      blows[i].second();
      for (int n = 0; n < 3; ++n) {
        const absl::Status status = (co_await client.Command("PING")).status();
        EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status))
            << blows[i].first << status;
      }
      EXPECT_NE(client.state().breaker, Breaker::kClosed);
      cures[i]();
      EXPECT_TRUE(co_await ComesToAnswer(loop, client)) << blows[i].first;
    }
    // The server answers nobody for a second; a second client says so, since its answer would come late.
    const auto slow = co_await client.Command("DEBUG", "SLEEP", "1");
    EXPECT_EQ(slow.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(co_await ComesToAnswer(loop, client));
    co_await client.Stop();
  });
}

}  // namespace
}  // namespace gateway::net
