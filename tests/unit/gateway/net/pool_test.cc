#include "gateway/net/http/pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"
#include "tests/support/tls_files.h"

namespace gateway::net::http {
namespace {

using tests::TestLoop;

constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view kStolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen";

// Accepts connections and hands them to the test.
struct Engine {
  Engine(TestLoop& loop, std::shared_ptr<const TlsContext> tls) {
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    if (tls) options.tls = [tls] { return tls; };
    auto listening = Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(options),
                                      [this](std::unique_ptr<Stream> made) { stream = std::move(made); });
    EXPECT_TRUE(listening.ok());
    acceptor = *std::move(listening);
  }

  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<Stream> stream;
};

Task<void> Write(Stream& stream, std::string_view bytes) {
  EXPECT_TRUE(co_await stream.Write(AsBuffer(bytes)));
}

Task<std::unique_ptr<ClientConnection>> Connect(TestLoop& loop, const Engine& engine,
                                                std::shared_ptr<const TlsContext> tls) {
  Connector connector(loop.io);
  Remote remote{"127.0.0.1", std::to_string(engine.acceptor->port()), std::move(tls), ""};
  ConnectResult connected = co_await connector.Connect(remote);
  EXPECT_FALSE(connected.error) << connected.error.message();
  co_return std::make_unique<ClientConnection>(loop, std::move(connected.stream));
}

// One exchange, after which `after` is written, and the connection is given back. Whether it is used again.
bool IsUsedAgainAfter(std::string_view with_answer, std::string_view after, bool over_tls) {
  bool used = false;
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    std::shared_ptr<const TlsContext> server;
    std::shared_ptr<const TlsContext> client;
    std::optional<tests::TlsFiles> files;
    if (over_tls) {
      files.emplace();
      server =
          *TlsContext::Server({.certificate = files->certificate(), .key = files->key(), .client_ca = {}});
      client = *TlsContext::Client({.ca = files->certificate(), .certificate = {}, .key = {}});
    }
    Engine& engine = loop.Make<Engine>(server);
    Pool pool(loop, Remote{}, {});
    std::unique_ptr<ClientConnection> connection = co_await Connect(loop, engine, client);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return engine.stream != nullptr; }));
    connection->BeginExchange();
    co_await Write(*engine.stream, std::string(kAnswer) + std::string(with_answer));
    EXPECT_EQ(co_await connection->ReadHead(HeadLimits{}), ClientConnection::Status::kOk);
    while (!connection->done()) EXPECT_EQ(co_await connection->ReadSome(), ClientConnection::Status::kOk);
    if (connection->EndExchange()) pool.Return(std::move(connection), Now());
    if (!after.empty()) co_await Write(*engine.stream, after);
    used = pool.TakeIdle(Now()) != nullptr;
    engine.stream->Close();
    engine.acceptor->Close();
  });
  return used;
}

struct PoolOver : testing::TestWithParam<bool> {};

TEST_P(PoolOver, AConnectionWithLateBytesIsNotUsedAgain) {
  EXPECT_TRUE(IsUsedAgainAfter("", "", GetParam()));
  EXPECT_FALSE(IsUsedAgainAfter("", kStolen, GetParam())) << "the next client would be given these bytes";
  EXPECT_FALSE(IsUsedAgainAfter("", "\n", GetParam()));
  EXPECT_FALSE(IsUsedAgainAfter(kStolen, "", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Transports, PoolOver, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace gateway::net::http
