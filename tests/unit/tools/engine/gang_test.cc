// Engines of one gang: when a leader is ready, and what each side does when the other is gone.
#include "tools/engine/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/free_port.h"
#include "tests/support/loop_test.h"
#include "tools/engine/options.h"

namespace tidegate_engine {
namespace {

using gateway::net::Task;
using tests::Eventually;
using tests::TestLoop;

// A leader on a free port, the workers that join it, and what they say in the end.
struct Gang {
  explicit Gang(TestLoop& on, uint32_t workers = 2) : loop(on) {
    options.workers = workers;
    options.leader_host = "127.0.0.1";
  }

  void StartLeader() {
    auto listening = GangLeader::Listen(loop, "127.0.0.1", options, [this](std::string why) {
      lost = std::move(why);
      ++losses;
    });
    ASSERT_TRUE(listening.ok()) << listening.status();
    leader = *std::move(listening);
    options.leader_port = std::to_string(leader->port());
  }
  GangWorker& AddWorker() {
    auto& worker = *workers.emplace_back(std::make_unique<GangWorker>(loop, options));
    loop.tasks.Spawn([](GangWorker& one, std::vector<std::string>& said) -> Task<void> {
      said.push_back(co_await one.Run());
    }(worker, ends));
    return worker;
  }

  TestLoop& loop;
  GangOptions options;
  std::unique_ptr<GangLeader> leader;
  std::vector<std::unique_ptr<GangWorker>> workers;
  std::vector<std::string> ends;  // of workers
  std::string lost;
  int losses = 0;
};

TEST(Gang, ALeaderIsCompleteOnceAllItsWorkersHaveJoined) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    Gang& gang = loop.Keep(std::make_unique<Gang>(loop));
    gang.StartLeader();
    EXPECT_FALSE(gang.leader->complete());
    const GangWorker& first = gang.AddWorker();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return first.joined(); }));
    EXPECT_FALSE(gang.leader->complete()) << "one of two";
    gang.AddWorker();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.leader->complete(); }));
    gang.leader->Close();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.ends.size() == 2; }));
    for (const std::string& end : gang.ends) EXPECT_THAT(end, testing::EndsWith("is gone"));
    EXPECT_EQ(gang.losses, 0) << "the leader has let them go";
  });
}

TEST(Gang, AWorkerWaitsForALeaderThatComesLater) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::FreePort port;
    Gang& gang = loop.Keep(std::make_unique<Gang>(loop, 1));
    gang.options.workers_at = port.number();
    gang.options.leader_port = std::to_string(port.number());
    const GangWorker& worker = gang.AddWorker();
    EXPECT_FALSE(worker.joined());
    gang.StartLeader();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return worker.joined() && gang.leader->complete(); }));
    gang.leader->Close();
  });
}

TEST(Gang, AWorkerThatFindsNoLeaderInTimeSaysSo) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::FreePort port;
    Gang& gang = loop.Keep(std::make_unique<Gang>(loop, 1));
    gang.options.leader_port = std::to_string(port.number());
    gang.options.join_within = std::chrono::milliseconds(100);
    gang.AddWorker();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !gang.ends.empty(); }));
    EXPECT_THAT(gang.ends, testing::ElementsAre(testing::HasSubstr("accepts no worker")));
  });
}

TEST(Gang, AWorkerThatGoesTakesTheLeaderWithIt) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    Gang& gang = loop.Keep(std::make_unique<Gang>(loop));
    gang.StartLeader();
    gang.AddWorker();
    gang.AddWorker();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.leader->complete(); }));
    gang.workers.front()->Close();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.losses == 1; }));
    EXPECT_FALSE(gang.leader->complete());
    EXPECT_THAT(gang.lost, testing::HasSubstr("127.0.0.1 is gone"));
    EXPECT_THAT(gang.ends, testing::ElementsAre("")) << "it was told to";
    gang.AddWorker().Close();
    EXPECT_FALSE(gang.leader->complete()) << "another in its stead does not know what it knew";
    gang.leader->Close();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.ends.size() == 3; }));
    EXPECT_EQ(gang.losses, 1);
  });
}

TEST(Gang, APeerThatDoesNotGreetIsNotAWorkerAndASilentWorkerIsGone) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    Gang& gang = loop.Keep(std::make_unique<Gang>(loop, 1));
    gang.options.pulse = std::chrono::milliseconds(20);
    gang.options.patience = std::chrono::milliseconds(300);
    gang.StartLeader();
    const auto connect = [&]() -> Task<std::unique_ptr<gateway::net::Stream>> {
      gateway::net::Connector connector(loop.io);
      gateway::net::ConnectResult connected =
          co_await connector.Connect({"127.0.0.1", gang.options.leader_port, nullptr, ""});
      co_return std::move(connected.stream);
    };
    auto stranger = co_await connect();
    co_await stranger->Write(gateway::net::AsBuffer("GET / HTTP/1.1\r\n\r\n"));
    char byte = 0;
    EXPECT_FALSE(co_await stranger->Read(gateway::net::MutableBuffer(&byte, 1))) << "it is hung up on";
    EXPECT_EQ(gang.leader->joined(), 0u);

    auto silent = co_await connect();
    co_await silent->Write(gateway::net::AsBuffer("tidegate-engine worker\n"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.leader->complete(); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gang.losses == 1; })) << "it says nothing more";
    silent->Close();
    stranger->Close();
    gang.leader->Close();
  });
}

std::optional<Options> Parse(std::vector<const char*> flags, int& code) {
  flags.insert(flags.begin(), "tidegate-engine");
  return ParseOptions(static_cast<int>(flags.size()), flags.data(), code);
}

TEST(Gang, ItsFlagsBelongTogether) {
  int code = 0;
  const auto leader = Parse({"--workers", "2", "--workers-at", "30100"}, code);
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->gang.workers, 2u);
  EXPECT_EQ(leader->gang.workers_at, 30'100);
  const auto worker = Parse({"--worker-of", "10.0.0.5:30100", "--join-within", "1m"}, code);
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->gang.leader_host, "10.0.0.5");
  EXPECT_EQ(worker->gang.leader_port, "30100");
  EXPECT_EQ(worker->gang.join_within, std::chrono::minutes(1));
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{
           {"--workers", "2"},
           {"--workers-at", "30100"},
           {"--workers", "0", "--workers-at", "30100"},
           {"--worker-of", "10.0.0.5"},
           {"--worker-of", ":30100"},
           {"--worker-of", "h:70000"},
           {"--worker-of", "h:30100", "--port", "8000"},
           {"--worker-of", "h:30100", "--workers", "1", "--workers-at", "1"},
           {"--join-within", "1m"}}) {
    EXPECT_FALSE(Parse(wrong, code)) << wrong[0] << " " << wrong.size();
    EXPECT_EQ(code, 2);
  }
}

}  // namespace
}  // namespace tidegate_engine
