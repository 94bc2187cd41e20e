#include "gateway/net/http/fetch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/loop_test.h"
#include "tests/support/silent_peer.h"

namespace gateway::net::http {
namespace {

using namespace std::chrono_literals;
using tests::RunOnLoop;
using tests::SilentPeer;
using tests::TestLoop;

FetchRequest To(const SilentPeer& peer, bool tls, conf::Duration timeout) {
  FetchRequest request;
  request.url = {tls, "127.0.0.1", std::to_string(peer.port()), "/", ""};
  request.timeout = timeout;
  return request;
}

TEST(Fetch, SaysThatItWasTheTimeWhichEnded) {
  const SilentPeer peer;
  for (const bool tls : {true, false}) {  // in the handshake, or waiting for the answer
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      const auto answer = co_await Fetch(loop, To(peer, tls, 50ms));
      EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
    });
  }
}

TEST(Fetch, EndsWithItsGroupInEveryPhase) {
  const SilentPeer peer;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    AbortGroup group;
    int ended = 0;
    const auto fetch = [&](bool tls) -> Task<void> {
      const auto answer = co_await Fetch(loop, To(peer, tls, 1h), &group);
      EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
      ++ended;
    };
    for (const bool tls : {true, false, true, false}) loop.tasks.Spawn(fetch(tls));
    Sleep pause(loop.watchdog);
    co_await pause.For(50ms);
    EXPECT_EQ(ended, 0);
    for (const bool tls : {true, false}) loop.tasks.Spawn(fetch(tls));  // not connected yet
    group.Abort();
    co_await fetch(false);  // and one that comes too late
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return ended == 7; }));
  });
}

}  // namespace
}  // namespace gateway::net::http
