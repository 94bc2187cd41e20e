// TLS through a running gateway: towards its callers and its operators, and from the gateway to an engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/tls_files.h"

namespace tests {
namespace {

std::string Files(const TlsFiles& tls, std::string_view more = "reload_interval: 1s") {
  return fmt::format("{{certificate: {}, key: {}, {}}}", tls.certificate(), tls.key(), more);
}

struct Tls : testing::Test {
  // Calls to the listener over TLS by the server's own certificate.
  GatewayConfig Config(std::string_view more = "reload_interval: 1s") const {
    return {.replicas = {engine.port()},
            .server = "tls: " + Files(server, more),
            .tls = TlsClient{server.certificate()}};
  }

  EngineProcess engine;
  TlsFiles server;
};

TEST_F(Tls, ServesCallsAndStreams) {
  const GatewayProcess gateway(Config());
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Ask(Chat({{"max_tokens", 2}})).status, 200);
  const Answer streamed = client.Ask(Chat({{"stream", true}, {"max_tokens", 20}}));
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(streamed.whole);
  EXPECT_THAT(streamed.body, testing::EndsWith("data: [DONE]\n\n"));
  // Larger than a TLS record, both ways.
  const Answer large = client.Ask(Chat({{"max_tokens", 2}, {"user", std::string(100'000, 'u')}}));
  EXPECT_EQ(large.status, 200) << large.body;

  RawClient plain(gateway.port());
  EXPECT_EQ(plain.Ask(Get("/v1/models")).status, 0) << "nothing is said in the clear";
  const TlsFiles stranger;
  EXPECT_FALSE(RawClient(gateway.port(), {stranger.certificate()}).connected())
      << "the test's client does look";
}

TEST_F(Tls, SeesAClientLeaveAndCancelsItsRequest) {
  engine.Fault({{"kind", "endless"}});
  const GatewayProcess gateway(Config());
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", true}, {"max_tokens", 1000}})));
  ASSERT_EQ(client.ReadHead().status, 200);
  ASSERT_TRUE(client.ReadEvent());
  client.Close();
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return engine.Stat("/running") == 0; }));
  EXPECT_TRUE(gateway.Settles());
}

TEST_F(Tls, RefusesVersionsBelowTheOneConfigured) {
  const GatewayProcess gateway(Config("min_version: \"1.3\""));
  RawClient old(gateway.port(), {.ca = server.certificate(), .tls12 = true});
  EXPECT_FALSE(old.connected());
  EXPECT_EQ(gateway.Ask(Get("/v1/models")).status, 200);
  const GatewayProcess lenient(Config("min_version: \"1.2\""));
  EXPECT_EQ(
      RawClient(lenient.port(), {.ca = server.certificate(), .tls12 = true}).Ask(Get("/v1/models")).status,
      200);
}

TEST_F(Tls, ARenewedCertificateIsServedToNewConnectionsAndOldOnesGoOn) {
  GatewayProcess gateway(Config());
  RawClient open = gateway.Connect();
  ASSERT_EQ(open.peer_serial(), 1);
  EXPECT_EQ(open.Ask(Chat({{"max_tokens", 1}})).status, 200);
  server.Renew();
  // The client believes the new certificate alone from here on, so that it connects once it is served.
  EXPECT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Connect().peer_serial() == server.serial(); }));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_EQ(open.Ask(Chat({{"max_tokens", 1}})).status, 200) << "on the connection of the old certificate";
  EXPECT_EQ(open.peer_serial(), 1);
}

TEST_F(Tls, ABrokenCertificateKeepsTheOneInUse) {
  GatewayProcess gateway(Config());
  const std::string ca = server.certificate() + ".old";
  std::filesystem::copy_file(server.certificate(), ca);
  std::ofstream(server.certificate()) << "-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n";
  ASSERT_FALSE(gateway.process().WaitForLine("certificate not renewed", RawClient::kPatience).empty());
  RawClient client(gateway.port(), {ca});
  EXPECT_EQ(client.peer_serial(), 1);
  EXPECT_EQ(client.Ask(Chat({{"max_tokens", 1}})).status, 200);
  // A reload refuses it, and applies nothing else either.
  gateway.Reload();
  EXPECT_EQ(gateway.Metric("tidegate_config_last_reload_successful"), 0);
  EXPECT_EQ(RawClient(gateway.port(), {ca}).Ask(Get("/v1/models")).status, 200);
  // Once it is whole again it is taken.
  server.Renew();
  EXPECT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Connect().peer_serial() == server.serial(); }));
}

TEST_F(Tls, AListenerIsRenewedThoughTheOthersCertificateIsBroken) {
  TlsFiles admin;
  GatewayConfig config = Config();
  config.server += ", admin_tls: " + Files(admin);
  config.admin_tls = TlsClient{admin.certificate()};
  GatewayProcess gateway(config);
  std::ofstream(server.key()) << "no key";
  admin.Renew();
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return RawClient(gateway.admin_port(), *config.admin_tls).peer_serial() == admin.serial();
  }));
  EXPECT_EQ(gateway.Ask(Get("/v1/models")).status, 200);
}

TEST_F(Tls, AClientWithoutAGoodCertificateIsShutOutWhereOneIsRequired) {
  const TlsFiles ours;
  const TlsFiles strangers;
  GatewayConfig config =
      Config(fmt::format("client_ca: {}, require_client_certificate: true", ours.certificate()));
  config.tls = TlsClient{server.certificate(), ours.certificate(), ours.key()};
  const GatewayProcess gateway(config);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_EQ(RawClient(gateway.port(), {server.certificate()}).Ask(Get("/v1/models")).status, 0);
  EXPECT_EQ(RawClient(gateway.port(), {server.certificate(), strangers.certificate(), strangers.key()})
                .Ask(Get("/v1/models"))
                .status,
            0);
}

TEST_F(Tls, AClientMayHaveNoCertificateWhereNoneIsRequired) {
  const TlsFiles ours;
  const TlsFiles strangers;
  const GatewayProcess gateway(
      Config(fmt::format("client_ca: {}, require_client_certificate: false", ours.certificate())));
  EXPECT_EQ(gateway.Ask(Get("/v1/models")).status, 200);
  EXPECT_EQ(RawClient(gateway.port(), {server.certificate(), ours.certificate(), ours.key()})
                .Ask(Get("/v1/models"))
                .status,
            200);
  EXPECT_EQ(RawClient(gateway.port(), {server.certificate(), strangers.certificate(), strangers.key()})
                .Ask(Get("/v1/models"))
                .status,
            0)
      << "one that is shown must be good";
}

TEST_F(Tls, TheAdminListenerHasACertificateOfItsOwn) {
  const TlsFiles admin;
  const TlsFiles operators;
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .server = "admin_tls: " + Files(admin, fmt::format("client_ca: {}, require_client_certificate: true",
                                                          operators.certificate())),
       .admin_tls = TlsClient{admin.certificate(), operators.certificate(), operators.key()}});
  EXPECT_EQ(gateway.AskAdmin(Get("/livez")).status, 200);
  EXPECT_EQ(gateway.AskAdmin(Get("/readyz")).status, 200);
  EXPECT_EQ(gateway.Metric("tidegate_ledger_healthy"), 1);
  EXPECT_EQ(RawClient(gateway.admin_port(), {admin.certificate()}).Ask(Get("/livez")).status, 0);
  EXPECT_EQ(RawClient(gateway.admin_port()).Ask(Get("/livez")).status, 0);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200) << "calls are in the clear still";
}

TEST_F(Tls, DoesNotWaitForEverForAHandshake) {
  const GatewayProcess gateway(Config());
  std::vector<RawClient> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(gateway.port());
  RawClient odd(gateway.port());
  EXPECT_TRUE(odd.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200) << "others are served meanwhile";
  for (RawClient& client : silent) EXPECT_TRUE(client.WaitClosed());
}

// An engine behind TLS: another gateway, which has a certificate and asks for one.
struct TlsEngine : Tls {
  // The answer of a gateway whose one endpoint of the model `secure` has these options.
  static Answer AskOver(const GatewayProcess& upstream, const EngineProcess& engine, std::string_view tls,
                        std::string_view host = "127.0.0.1", bool stream = false) {
    const GatewayProcess gateway(
        {.replicas = {engine.port()},
         .models =
             fmt::format("  - {{name: secure, retries: {{max: 0}}, health: {{probe: false}}, endpoints: "
                         "[{{url: \"https://{}:{}\", engine: vllm, model: chat-small, tls: {}}}]}}\n",
                         host, upstream.port(), tls)});
    return gateway.Ask(Chat({{"model", "secure"}, {"max_tokens", 3}, {"stream", stream}}));
  }
};

TEST_F(TlsEngine, IsReachedWithTheAuthorityGiven) {
  const GatewayProcess upstream(Config());
  const std::string ca = fmt::format("{{ca: {}}}", server.certificate());
  const Answer answer = AskOver(upstream, engine, ca);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Answer streamed = AskOver(upstream, engine, ca, "127.0.0.1", true);
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(streamed.whole);
  EXPECT_THAT(streamed.body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(TlsEngine, IsNotBelievedWithoutACertificateOfThatAuthorityAndName) {
  const GatewayProcess upstream(Config());
  const TlsFiles stranger;
  const std::string ca = fmt::format("ca: {}", server.certificate());
  const struct {
    const char* name;
    std::string tls;
    const char* host = "127.0.0.1";
  } cases[] = {
      {"another authority", fmt::format("{{ca: {}}}", stranger.certificate())},
      {"the system's authorities", "{}"},
      {"another address", fmt::format("{{{}}}", ca), "127.0.0.2"},
      {"another name", fmt::format("{{{}}}", ca), "localhost"},
      {"another name expected", fmt::format("{{{}, server_name: gpu.example.com}}", ca)},
  };
  const uint64_t before = engine.Stat("/requests/received");
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Answer answer = AskOver(upstream, engine, c.tls, c.host);
    EXPECT_THAT(answer.status, testing::AnyOf(502, 503)) << answer.body;
    EXPECT_EQ(answer.code(), "upstream_unavailable") << answer.body;
  }
  EXPECT_EQ(engine.Stat("/requests/received"), before);
  EXPECT_EQ(AskOver(upstream, engine, "{insecure_skip_verify: true}", "127.0.0.1").status, 200);
  EXPECT_EQ(AskOver(upstream, engine, fmt::format("{{{}, server_name: 127.0.0.1}}", ca), "localhost").status,
            200);
}

TEST_F(TlsEngine, IsShownACertificateWhereItAsksForOne) {
  const TlsFiles ours;
  GatewayConfig config =
      Config(fmt::format("client_ca: {}, require_client_certificate: true", ours.certificate()));
  config.tls = TlsClient{server.certificate(), ours.certificate(), ours.key()};
  const GatewayProcess upstream(config);
  const std::string ca = fmt::format("ca: {}", server.certificate());
  const Answer with = AskOver(
      upstream, engine, fmt::format("{{{}, certificate: {}, key: {}}}", ca, ours.certificate(), ours.key()));
  EXPECT_EQ(with.status, 200) << with.body;
  const Answer without = AskOver(upstream, engine, fmt::format("{{{}}}", ca));
  EXPECT_THAT(without.status, testing::AnyOf(502, 503)) << without.body;
  EXPECT_THAT(without.code(), testing::AnyOf("upstream_unavailable", "upstream_error"));
}

TEST_F(TlsEngine, IsProbedByTheNameThatIsConfigured) {
  const TlsFiles named("DNS:gpu.example.com");
  const GatewayProcess upstream({.replicas = {engine.port()},
                                 .server = "tls: " + Files(named),
                                 .tls = TlsClient{.ca = named.certificate(), .name = "gpu.example.com"}});
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .models = fmt::format(
           "  - {{name: secure, health: {{path: /v1/models, interval: 100ms, timeout: 90ms, rise: 1}}, "
           "endpoints: "
           "[{{name: s, url: \"https://127.0.0.1:{}\", engine: vllm, model: chat-small, tls: {{ca: {}, "
           "server_name: gpu.example.com}}}}]}}\n",
           upstream.port(), named.certificate())});
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric("tidegate_replica_health{model=\"secure\",replica=\"s\",state=\"up\"}") == 1;
  }));
  EXPECT_EQ(gateway.Ask(Chat({{"model", "secure"}, {"max_tokens", 3}})).status, 200);
}

}  // namespace
}  // namespace tests
