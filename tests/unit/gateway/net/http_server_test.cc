#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gateway/net/http/server.h"
#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"

namespace gateway::net::http {
namespace {

using namespace std::chrono_literals;
using tests::Eventually;
using tests::RunOnLoop;
using tests::TestLoop;

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

Task<std::unique_ptr<Stream>> ConnectTo(Loop& loop, const Server& server) {
  Connector connector(loop.io);
  ConnectResult connected = co_await connector.Connect({"127.0.0.1", std::to_string(server.port()), {}, {}});
  EXPECT_FALSE(connected.error) << connected.error.message();
  co_return std::move(connected.stream);
}

Task<std::string> ReadSome(Stream& stream) {
  std::array<char, 4096> buffer;
  const IoResult read = co_await stream.Read(MutableBuffer(buffer.data(), buffer.size()));
  co_return read.error ? "" : std::string(buffer.data(), read.bytes);
}

// A server whose requests wait for `go`.
struct Held {
  explicit Held(TestLoop& loop) {
    Server::Options options;
    options.acceptor.address = "127.0.0.1:0";
    auto listening = Server::Listen(loop, std::move(options), [this](Exchange& exchange) -> Task<void> {
      ++begun;
      if (holds) co_await go.Wait();
      co_await exchange.Send(200, {}, "answer");
    });
    EXPECT_TRUE(listening.ok()) << listening.status();
    server = *std::move(listening);
  }
  std::unique_ptr<Server> server;
  bool holds = false;
  Event go;
  int begun = 0;
};

TEST(HttpServer, CloseEndsIdleConnectionsAndLetsARunningRequestEnd) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Held& held = loop.Make<Held>();
    const std::unique_ptr<Stream> fresh = co_await ConnectTo(loop, *held.server);
    const std::unique_ptr<Stream> used = co_await ConnectTo(loop, *held.server);
    EXPECT_FALSE((co_await used->Write(AsBuffer(kRequest))).error);
    EXPECT_TRUE((co_await ReadSome(*used)).ends_with("answer"));
    held.holds = true;
    const std::unique_ptr<Stream> busy = co_await ConnectTo(loop, *held.server);
    EXPECT_FALSE((co_await busy->Write(AsBuffer(kRequest))).error);
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return held.begun == 2 && held.server->connections() == 3; }));

    held.server->Close();
    EXPECT_EQ(co_await ReadSome(*fresh), "");
    EXPECT_EQ(co_await ReadSome(*used), "");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return held.server->connections() == 1; }));
    held.go.Set();
    EXPECT_TRUE((co_await ReadSome(*busy)).ends_with("answer"));
    EXPECT_EQ(co_await ReadSome(*busy), "") << "it takes no further request";
    EXPECT_TRUE(co_await Eventually(loop, [&] { return held.server->connections() == 0; }));
    for (const auto* stream : {&fresh, &used, &busy}) (*stream)->Close();
  });
}

TEST(HttpServer, AnswersOneRequestAfterAnotherOnAConnection) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Held& held = loop.Make<Held>();
    const std::unique_ptr<Stream> stream = co_await ConnectTo(loop, *held.server);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_FALSE((co_await stream->Write(AsBuffer(kRequest))).error);
      EXPECT_TRUE((co_await ReadSome(*stream)).ends_with("answer"));
      EXPECT_EQ(held.begun, i);
    }
    EXPECT_EQ(held.server->connections(), 1u);
    held.server->CloseAll();
    EXPECT_EQ(co_await ReadSome(*stream), "");
    stream->Close();
  });
}

TEST(HttpServer, RefusesAHeadThatIsNotHttpAndEndsTheConnection) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Held& held = loop.Make<Held>();
    const std::unique_ptr<Stream> stream = co_await ConnectTo(loop, *held.server);
    EXPECT_FALSE((co_await stream->Write(AsBuffer("not http\r\n\r\n"))).error);
    EXPECT_TRUE((co_await ReadSome(*stream)).starts_with("HTTP/1.1 400 Bad Request\r\n"));
    stream->EndWriting();
    EXPECT_EQ(co_await ReadSome(*stream), "");
    EXPECT_EQ(held.begun, 0);
    held.server->CloseAll();
    stream->Close();
  });
}

}  // namespace
}  // namespace gateway::net::http
