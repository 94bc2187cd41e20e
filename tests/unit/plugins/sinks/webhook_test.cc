#include "plugins/sinks/webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "conf/text.h"
#include "plugins/auth/hmac.h"
#include "tests/support/http_peer.h"
#include "tests/support/silent_peer.h"

namespace plugins::sinks {
namespace {

using namespace std::chrono_literals;
using gateway::net::Now;
using gateway::net::Task;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::HttpPeer;
using tests::RunOnLoop;
using tests::SilentPeer;
using tests::TestLoop;

const std::vector<Record> kBatch{{7, {}, R"({"seq":7})", "0123456789abcdef0123"},
                                 {8, {}, R"({"seq":8})", "fedcba9876543210fedc"}};

TEST(WebhookSink, PostsABatchAsNdjsonWithItsSequenceNumbersAndSignature) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    peer.status = [] { return 204; };
    WebhookSink::Options options;
    options.url = peer.url("/in");
    options.url.query = "tenant=a";
    options.source = "gw-1";
    options.bearer = "b3arer";
    options.signing_secret = "s1gn";
    options.headers = {{"x-own", "yes"}};
    WebhookSink sink(loop, options);
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_EQ(peer.seen.size(), 2u);
    const HttpPeer::Request& request = peer.seen[0];
    EXPECT_EQ(request.target, "/in?tenant=a");
    EXPECT_EQ(request.body, "{\"seq\":7}\n{\"seq\":8}\n");
    const auto& headers = request.headers;
    EXPECT_EQ(headers.at("content-type"), "application/x-ndjson");
    EXPECT_EQ(headers.at("idempotency-key"), "gw-1-7-8-fedcba9876543210");
    EXPECT_EQ(headers.at("x-tidegate-first-seq"), "7");
    EXPECT_EQ(headers.at("x-tidegate-last-seq"), "8");
    EXPECT_EQ(headers.at("x-own"), "yes");
    EXPECT_EQ(headers.at("authorization"), "Bearer b3arer");
    EXPECT_EQ(headers.at("x-tidegate-signature"),
              "v1=" + auth::HmacSha256("s1gn", headers.at("x-tidegate-timestamp") + "." + request.body));
    EXPECT_EQ(peer.seen[1].headers.at("idempotency-key"), "gw-1-7-8-fedcba9876543210");
    peer.Stop();
  });
}

TEST(WebhookSink, TakesOnly2xxForDelivered) {
  struct Case {
    int status;
    absl::StatusCode code;
  };
  for (const Case& c :
       {Case{200, absl::StatusCode::kOk}, Case{202, absl::StatusCode::kOk},
        Case{301, absl::StatusCode::kUnavailable}, Case{401, absl::StatusCode::kUnavailable},
        Case{413, absl::StatusCode::kResourceExhausted}, Case{500, absl::StatusCode::kUnavailable}}) {
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      HttpPeer& peer = loop.Make<HttpPeer>();
      peer.Listen();
      peer.status = [&] { return c.status; };
      WebhookSink::Options options;
      options.url = peer.url("/in");
      options.url.query = "token=s3cret";
      options.bearer = "b3arer";
      WebhookSink sink(loop, options);
      const absl::Status status = co_await sink.Deliver(kBatch, kOwnTimeout);
      EXPECT_EQ(status.code(), c.code) << c.status;
      EXPECT_THAT(status.ToString(), Not(HasSubstr("s3cret")));
      EXPECT_THAT(status.ToString(), Not(HasSubstr("b3arer")));
      peer.Stop();
    });
  }
}

gateway::net::Url UrlOf(const SilentPeer& peer, bool tls) {
  return {tls, "127.0.0.1", std::to_string(peer.port()), "/in", {}};
}

TEST(WebhookSink, TakesNoMoreTimeThanItIsGivenThoughItsOwnIsLonger) {
  const SilentPeer peer;
  for (const bool tls : {false, true}) {
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      WebhookSink::Options options;
      options.url = UrlOf(peer, tls);
      options.timeout = 1h;
      WebhookSink sink(loop, options);
      const conf::TimePoint start = Now();
      EXPECT_FALSE((co_await sink.Deliver(kBatch, start + 100ms)).ok());
      EXPECT_FALSE((co_await sink.Deliver(kBatch, start)).ok()) << "none at all";
    });
  }
}

TEST(WebhookSink, ADeliveryUnderWayEndsWhenItIsClosed) {
  const SilentPeer peer;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    WebhookSink::Options options;
    options.url = UrlOf(peer, false);
    options.timeout = 1h;
    WebhookSink sink(loop, options);
    gateway::net::Event ended;
    const auto deliver = [&]() -> Task<void> {
      EXPECT_FALSE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
      ended.Set();
    };
    loop.tasks.Spawn(deliver());
    gateway::net::Sleep pause(loop.watchdog);
    co_await pause.For(50ms);
    EXPECT_FALSE(ended.is_set());
    sink.Close();
    co_await ended.Wait();
  });
}

TEST(WebhookSink, GivesUpOnASlowPeerAndOnADeadOne) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    peer.status = [] { return 0; };
    WebhookSink::Options options;
    options.url = peer.url("/in");
    options.timeout = 100ms;
    WebhookSink sink(loop, options);
    EXPECT_EQ((co_await sink.Deliver(kBatch, kOwnTimeout)).code(), absl::StatusCode::kDeadlineExceeded);
    peer.Stop();
    EXPECT_FALSE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
  });
}

}  // namespace
}  // namespace plugins::sinks
