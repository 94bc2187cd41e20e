// The disk under the ledger is full: new work is refused, running work ends, and nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

using gateway::ledger::Record;

TEST(DiskFull, NewWorkIsRefusedRunningStreamsFinishAndNothingIsLost) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "25ms", "--step-per-sequence", "0s"});
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .ledger = "min_free_bytes: 1MiB", .state_dir = disk.path() + "/state"});
  std::vector<std::string> served;
  const auto ask = [&] {
    Answer answer = gateway.Ask(Chat({{"max_tokens", 2}, {"ignore_eos", true}}));
    if (answer.status == 200) served.push_back(answer.header("x-request-id"));
    return answer;
  };
  ASSERT_EQ(ask().status, 200);

  RawClient streaming = gateway.Connect();
  ASSERT_TRUE(streaming.Send(Chat({{"stream", true}, {"max_tokens", 60}, {"ignore_eos", true}})));
  const Answer head = streaming.ReadHead();
  ASSERT_EQ(head.status, 200);
  disk.Fill();
  Answer refused;
  ASSERT_TRUE(tests::Within(milliseconds(10'000), [&] { return (refused = ask()).status != 200; }));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "ledger_unavailable");
  EXPECT_EQ(refused.header("x-should-retry"), "true");

  std::string last;
  while (auto event = streaming.ReadEvent()) last = *std::move(event);
  EXPECT_EQ(last, "data: [DONE]") << "what runs may finish";
  served.push_back(head.header("x-request-id"));
  EXPECT_EQ(gateway.Ask(Chat()).status, 503);

  disk.Empty();
  EXPECT_TRUE(tests::Within(milliseconds(10'000), [&] { return ask().status == 200; }))
      << "there is room again";
  EXPECT_EQ(ask().status, 200);
  for (const std::string& id : served) {
    const Record record = gateway.CloseOf(id);
    EXPECT_THAT(record.reason, testing::AnyOf("done", "length"));
    EXPECT_GT(record.output, 0);
  }
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

TEST(DiskFull, KilledWhileItIsFullItLosesNothingEither) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "10ms", "--step-per-sequence", "0s"});
  GatewayProcess gateway(
      {.replicas = {engine.port()}, .ledger = "min_free_bytes: 1MiB", .state_dir = disk.path() + "/state"});
  RawClient streaming = gateway.Connect();
  ASSERT_TRUE(streaming.Send(Chat({{"stream", true}, {"max_tokens", 30}, {"ignore_eos", true}})));
  const Answer head = streaming.ReadHead();
  ASSERT_EQ(head.status, 200);
  disk.Fill();
  ASSERT_TRUE(tests::Within(milliseconds(10'000),
                            [&] { return gateway.Ask(Chat({{"max_tokens", 1}})).status == 503; }));
  while (streaming.ReadEvent()) {
  }
  EXPECT_TRUE(streaming.ended());
  gateway.Kill();
  disk.Empty();
  gateway.Start();
  const Record record = gateway.CloseOf(head.header("x-request-id"));
  EXPECT_EQ(record.output, 30);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

}  // namespace
}  // namespace tests
