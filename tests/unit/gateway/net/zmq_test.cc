#include "gateway/net/zmq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/loop_test.h"

namespace gateway::net {
namespace {

using Frames = std::span<const std::string_view>;
using Kind = ZmqSocket::Kind;
using ::testing::ElementsAre;
using tests::Eventually;
using tests::TestLoop;

constexpr const char* kAnywhere = "tcp://127.0.0.1:*";

std::vector<std::string> Copy(Frames frames) {
  return {frames.begin(), frames.end()};
}

void RunWithContext(const std::function<Task<void>(TestLoop&, ZmqContext&)>& body) {
  ZmqContext context;
  tests::RunOnLoop([&](TestLoop& loop) { return body(loop, context); });
}

TEST(ZmqSocket, PublishesToSubscribersOfTheTopic) {
  RunWithContext([](TestLoop& loop, ZmqContext& context) -> Task<void> {
    auto out =
        *ZmqSocket::Open(loop, context, {.kind = Kind::kPub, .url = kAnywhere, .bind = true}, [](Frames) {});
    std::vector<std::vector<std::string>> got;
    bool up = false;
    auto in = *ZmqSocket::Open(
        loop, context, {.url = out->endpoint(), .topic = "kv"},
        [&](Frames frames) { got.push_back(Copy(frames)); }, [&](bool is_up) { up = is_up; });
    EXPECT_TRUE(co_await Eventually(loop, [&] { return up; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      out->Send({"other", "x"});
      out->Send({"kv1", "a", "b"});
      return !got.empty();
    }));
    if (!got.empty()) EXPECT_THAT(got[0], ElementsAre("kv1", "a", "b"));
    out.reset();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !up; }));
  });
}

TEST(ZmqSocket, AsksAndIsAnsweredInManyMessages) {
  RunWithContext([](TestLoop& loop, ZmqContext& context) -> Task<void> {
    constexpr size_t kAnswers = 1'000;
    ZmqSocket* answering = nullptr;
    auto router = *ZmqSocket::Open(
        loop, context, {.kind = Kind::kRouter, .url = kAnywhere, .bind = true, .max_queued = 2'000},
        [&](Frames frames) {
          EXPECT_EQ(frames.size(), 3u);
          for (size_t i = 0; i < kAnswers; ++i) answering->Send({frames[0], "", std::to_string(i)});
        });
    answering = router.get();
    std::vector<std::string> got;
    auto dealer = *ZmqSocket::Open(loop, context, {.kind = Kind::kDealer, .url = router->endpoint()},
                                   [&](Frames frames) { got.emplace_back(frames.back()); });
    EXPECT_TRUE(dealer->Send({"", "7"}));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return got.size() == kAnswers; }));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], std::to_string(i));
  });
}

TEST(ZmqSocket, MayBeDestroyedFromWithinItsCallback) {
  RunWithContext([](TestLoop& loop, ZmqContext& context) -> Task<void> {
    ZmqSocket* answering = nullptr;
    auto router = *ZmqSocket::Open(loop, context, {.kind = Kind::kRouter, .url = kAnywhere, .bind = true},
                                   [&](Frames frames) {
                                     for (int i = 0; i < 10; ++i) answering->Send({frames[0], "", "x"});
                                   });
    answering = router.get();
    std::unique_ptr<ZmqSocket> dealer;
    int got = 0;
    dealer = *ZmqSocket::Open(loop, context, {.kind = Kind::kDealer, .url = router->endpoint()}, [&](Frames) {
      ++got;
      dealer.reset();
    });
    dealer->Send({"", "7"});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return got > 0; }));
    EXPECT_EQ(got, 1);
  });
}

TEST(ZmqSocket, LargerMessagesThanAllowedCostTheirSenderTheConnection) {
  RunWithContext([](TestLoop& loop, ZmqContext& context) -> Task<void> {
    auto out =
        *ZmqSocket::Open(loop, context, {.kind = Kind::kPub, .url = kAnywhere, .bind = true}, [](Frames) {});
    int got = 0;
    int lost = 0;
    bool up = false;
    auto in = *ZmqSocket::Open(
        loop, context, {.url = out->endpoint(), .max_message_bytes = 1'000}, [&](Frames) { ++got; },
        [&](bool is_up) {
          up = is_up;
          lost += !is_up;
        });
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      out->Send({"small"});
      return got > 0;
    }));
    EXPECT_TRUE(up);
    out->Send({std::string(2'000, 'x')});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return lost == 1; }));
    EXPECT_FALSE(up);
  });
}

TEST(ZmqSocket, SaysWhyItCannotBeOpened) {
  RunWithContext([](TestLoop& loop, ZmqContext& context) -> Task<void> {
    for (const char* url : {"", "tcp://", "tcp://127.0.0.1", "nonsense://h:1"}) {
      EXPECT_FALSE(ZmqSocket::Open(loop, context, {.url = url}, [](Frames) {}).ok()) << url;
    }
    auto first =
        *ZmqSocket::Open(loop, context, {.kind = Kind::kPub, .url = kAnywhere, .bind = true}, [](Frames) {});
    EXPECT_FALSE(ZmqSocket::Open(loop, context, {.kind = Kind::kPub, .url = first->endpoint(), .bind = true},
                                 [](Frames) {})
                     .ok());
    co_return;
  });
}

}  // namespace
}  // namespace gateway::net
