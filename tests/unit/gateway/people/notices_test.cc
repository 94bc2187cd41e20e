#include "gateway/people/notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plugins/auth/hmac.h"
#include "tests/support/http_peer.h"

namespace {

using gateway::Notices;
using gateway::TenantGrant;
using gateway::net::Task;
using tests::TestLoop;

gateway::config::Webhook WebhookAt(const tests::HttpPeer& peer) {
  gateway::config::Webhook webhook;
  const gateway::net::Url url = peer.url("/hook");
  webhook.url.scheme = "http";
  webhook.url.host = url.host;
  webhook.url.port = static_cast<uint16_t>(std::stoi(url.port));
  webhook.url.path = url.path;
  webhook.secret = conf::Secret("env:HOOK", "hook-secret");
  return webhook;
}

TEST(Notices, ANoticeIsSignedAndSentAgainUntilItIsTaken) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    peer.Listen();
    peer.status = [&peer] { return peer.seen.size() == 1 ? 503 : 200; };
    Notices& notices =
        loop.Keep(std::make_unique<Notices>(loop, [&peer] { return std::optional(WebhookAt(peer)); }));
    const TenantGrant grant{.id = "gr_1", .tenant = "acme", .gives = {.models = {"large"}}};
    notices.Add({.event = "grant.give", .actor = "person:lead", .grant = &grant});
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return peer.seen.size() == 2; }));
    for (const tests::HttpPeer::Request& request : peer.seen) {
      const nlohmann::json body = nlohmann::json::parse(request.body);
      EXPECT_EQ(body["event"], "grant.give");
      EXPECT_EQ(body["grant"]["id"], "gr_1");
      EXPECT_EQ(request.headers.at("idempotency-key"), peer.seen.front().headers.at("idempotency-key"));
      EXPECT_EQ(request.headers.at("x-tidegate-signature"),
                "v1=" + plugins::auth::HmacSha256(
                            "hook-secret", request.headers.at("x-tidegate-timestamp") + "." + request.body));
      EXPECT_EQ(request.body.find("hook-secret"), std::string::npos);
    }
    EXPECT_EQ(notices.dropped(), 0u);
    notices.Stop();
    peer.Stop();
  });
}

TEST(Notices, NothingIsSentWithoutAWebhook) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    Notices notices(loop, [] { return std::optional<gateway::config::Webhook>(); });
    notices.Add("grant.give", "{}");
    EXPECT_EQ(notices.dropped(), 0u);
    notices.Stop();
    co_return;
  });
}

}  // namespace
