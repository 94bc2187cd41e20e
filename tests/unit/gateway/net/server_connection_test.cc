#include "gateway/net/http/server_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/error.hpp>
#include <cstring>
#include <string>
#include <utility>

#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"

namespace gateway::net::http {
namespace {

using std::chrono::milliseconds;
using tests::TestLoop;
using Status = ServerConnection::Status;

// The client's side is the test's: what it sends is read in turn, and every write waits for the loop, as
// those of TLS do.
class ClientStream final : public Stream {
 public:
  explicit ClientStream(Loop& loop) : loop_(loop) {}

  void Send(std::string_view bytes) {
    sent_ += bytes;
    Deliver();
  }
  // Ends its side once what it sent is read.
  void Leave() {
    left_ = true;
    Deliver();
  }

  void AsyncRead(MutableBuffer into, Completion& done) override {
    into_ = into;
    reader_ = &done;
    Deliver();
  }
  void AsyncWrite(std::span<const ConstBuffer> from, Completion& done) override {
    size_t n = 0;
    for (const ConstBuffer& part : from) n += part.size();
    loop_.Post([&done, n] { done.Complete({}, n); });
  }
  IoResult TryWrite(std::span<const ConstBuffer>) override { return {}; }
  uint64_t Acknowledged() override { return 0; }
  bool HasPeerEnded() override { return false; }
  bool IsQuiet() override { return true; }
  void Close() override {
    sent_.clear();
    Leave();
  }
  void ResetOnClose() override {}
  void EndWriting() override {}
  const std::string& PeerAddress() const override { return peer_; }

 private:
  void Deliver() {
    if (!reader_ || (sent_.empty() && !left_)) return;
    const size_t n = std::min(sent_.size(), into_.size());
    std::memcpy(into_.data(), sent_.data(), n);
    sent_.erase(0, n);
    const ErrorCode error = n == 0 ? ErrorCode(asio::error::eof) : ErrorCode();
    loop_.Post([done = std::exchange(reader_, nullptr), error, n] { done->Complete(error, n); });
  }

  Loop& loop_;
  std::string sent_;
  MutableBuffer into_;
  Completion* reader_ = nullptr;
  bool left_ = false;
  const std::string peer_ = "client";
};

std::string Chunked(std::string_view body, size_t chunk) {
  std::string text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < body.size(); at += chunk) {
    const std::string_view piece = body.substr(at, chunk);
    text += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  return text + "0\r\n\r\n";
}

using Serve = std::function<Task<void>(TestLoop&, ServerConnection&, ClientStream&)>;

void WithConnection(ConnectionLimits limits, const Serve& serve) {
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto stream = std::make_unique<ClientStream>(loop);
    ClientStream& client = *stream;
    ServerConnection connection(loop, std::move(stream), limits);
    co_await serve(loop, connection, client);
    co_await connection.Shutdown();
  });
}

TEST(ServerConnection, PipelinedBytesAreTheNextRequestHoweverTheyAreCut) {
  const std::string first = Chunked(std::string(20'000, 'a'), 7'000);
  const std::string second = Chunked(std::string(60'000, 'b'), 60'000);
  for (const size_t ahead : {size_t{1}, size_t{150}, size_t{15'000}, size_t{40'000}, second.size()}) {
    SCOPED_TRACE(ahead);
    WithConnection({}, [&](TestLoop& loop, ServerConnection& connection, ClientStream& client) -> Task<void> {
      client.Send(first + second.substr(0, ahead));
      EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
      EXPECT_EQ(co_await connection.ReadBody(1u << 20), Status::kOk);
      EXPECT_EQ(connection.body(), std::string(20'000, 'a'));
      connection.WatchPeer([] { ADD_FAILURE() << "it has not left"; });
      Sleep a_turn(loop.watchdog);
      const size_t half = (second.size() - ahead) / 2;
      client.Send(second.substr(ahead, half));  // while the first is worked on
      co_await a_turn.For(milliseconds(0));
      EXPECT_TRUE(connection.EndRequest());
      client.Send(second.substr(ahead + half));
      EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
      EXPECT_EQ(co_await connection.ReadBody(1u << 20), Status::kOk);
      EXPECT_EQ(connection.body(), std::string(60'000, 'b'));
      EXPECT_TRUE(connection.EndRequest());
    });
  }
}

TEST(ServerConnection, AnIncompleteHeadTimesOut) {
  const std::string request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  struct Case {
    std::string sent;  // by a client that then says no more
    Status end;
    bool after_another = false;
  };
  const std::vector<Case> cases = {
      {"", Status::kClosed},
      {"\r\n", Status::kClosed},
      {"GET / HT", Status::kTimedOut},
      {"\r\nGET / HT", Status::kTimedOut},
      {"", Status::kClosed, true},
      {"\r\n", Status::kTimedOut, true},
      {"GET / HT", Status::kTimedOut, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.sent) + (c.after_another ? " after another" : ""));
    WithConnection({.idle = milliseconds(20), .head_time = milliseconds(20)},
                   [&](TestLoop&, ServerConnection& connection, ClientStream& client) -> Task<void> {
                     client.Send((c.after_another ? request : "") + c.sent);
                     if (c.after_another) {
                       EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
                       EXPECT_TRUE(connection.EndRequest());
                     }
                     EXPECT_EQ(co_await connection.ReadHead(), c.end);
                   });
  }
}

TEST(ServerConnection, SurvivesABodyThatContinuesAfterItsRefusal) {
  for (const size_t size : {100u, 100'000u, 1'000'000u}) {
    SCOPED_TRACE(size);
    const std::string request = Chunked(std::string(size, 'a'), size);
    WithConnection({.body_time = milliseconds(20)},
                   [&](TestLoop&, ServerConnection& connection, ClientStream& client) -> Task<void> {
                     client.Send(request.substr(0, request.size() - 20));
                     EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
                     EXPECT_EQ(co_await connection.ReadBody(2u << 20), Status::kTimedOut);
                     EXPECT_FALSE(connection.EndRequest()) << "it cannot carry another";
                     client.Send(request.substr(request.size() - 20));
                     client.Send(std::string(50'000, 'c'));
                     client.Leave();
                     co_await connection.Linger();
                   });
  }
}

// Heartbeats of a stream, for one, are written while its form is still on its way.
TEST(ServerConnection, WritesDoNotStopTheTimeOfABody) {
  WithConnection({.body_time = milliseconds(100)},
                 [](TestLoop& loop, ServerConnection& connection, ClientStream& client) -> Task<void> {
                   client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nbegin");
                   EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
                   std::string_view piece;
                   EXPECT_EQ(co_await connection.ReadBodyPiece(piece), Status::kOk);
                   EXPECT_EQ(piece, "begin");
                   bool reading = true;
                   Event written;
                   const auto write = [&]() -> Task<void> {
                     Sleep pause(loop.watchdog);
                     for (int i = 0; i < 100 && reading; ++i) {
                       co_await pause.For(milliseconds(10));
                       co_await connection.Write(AsBuffer("beat"));
                     }
                     EXPECT_FALSE(reading) << "the body's time did not end";
                     if (reading) client.Close();
                     written.Set();
                   };
                   loop.tasks.Spawn(write());
                   EXPECT_EQ(co_await connection.ReadBodyPiece(piece), Status::kTimedOut);
                   reading = false;
                   co_await written.Wait();
                 });
}

TEST(ServerConnection, TheTimeOfABodyIsThatOfAllItsPieces) {
  WithConnection({.body_time = milliseconds(150)},
                 [](TestLoop& loop, ServerConnection& connection, ClientStream& client) -> Task<void> {
                   client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
                   EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
                   Event ended;
                   bool reading = true;
                   const auto send = [&]() -> Task<void> {
                     Sleep pause(loop.watchdog);
                     for (int i = 0; i < 100 && reading; ++i) {
                       co_await pause.For(milliseconds(30));
                       client.Send("drop");
                     }
                     ended.Set();
                   };
                   loop.tasks.Spawn(send());
                   Status status = Status::kOk;
                   std::string_view piece;
                   int pieces = 0;
                   for (; status == Status::kOk && pieces < 50; ++pieces) {
                     status = co_await connection.ReadBodyPiece(piece);
                   }
                   reading = false;
                   EXPECT_EQ(status, Status::kTimedOut) << "after " << pieces << " pieces";
                   co_await ended.Wait();
                 });
}

TEST(ServerConnection, TimeBetweenPiecesDoesNotCountAgainstTheClient) {
  WithConnection({.body_time = milliseconds(100)},
                 [](TestLoop& loop, ServerConnection& connection, ClientStream& client) -> Task<void> {
                   client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
                   EXPECT_EQ(co_await connection.ReadHead(), Status::kOk);
                   std::string_view piece;
                   for (int i = 0; i < 4; ++i) {
                     Sleep busy(loop.watchdog);
                     co_await busy.For(milliseconds(60));
                     client.Send("x");
                     EXPECT_EQ(co_await connection.ReadBodyPiece(piece), Status::kOk);
                   }
                   EXPECT_TRUE(connection.body_read());
                 });
}

// A client with a small window, which is read from when the test says.
class Reader {
 public:
  explicit Reader(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int small = 4096;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  ~Reader() { close(fd_); }
  void ReadSome() {
    std::array<char, 4096> piece;
    [[maybe_unused]] const ssize_t n = read(fd_, piece.data(), piece.size());
  }

 private:
  int fd_;
};

// One write of far more than the system takes at once; how long it lasted until the connection was closed, or
// nothing if it was not within `patience`.
std::optional<conf::Duration> StalledAfter(conf::Duration stall, conf::Duration patience, bool reads) {
  std::optional<conf::Duration> lasted;
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const ConnectionLimits limits{.write_stall = stall};
    const std::string much(32u << 20, 'x');
    std::unique_ptr<ServerConnection> connection;
    Event ended;
    conf::TimePoint began;
    const auto serve = [&]() -> Task<void> {
      began = Now();
      co_await connection->Write(AsBuffer(much));
      lasted = Now() - began;
      co_await connection->Shutdown();
      ended.Set();
    };
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    auto acceptor = Acceptor::Listen(
        loop.io, loop.watchdog, loop.tasks, std::move(options), [&](std::unique_ptr<Stream> stream) {
          connection = std::make_unique<ServerConnection>(loop, std::move(stream), limits);
          loop.tasks.Spawn(serve());
        });
    EXPECT_TRUE(acceptor.ok());
    Reader reader((*acceptor)->port());
    Sleep pause(loop.watchdog);
    const conf::TimePoint until = Now() + patience;
    while (!lasted && Now() < until) {
      if (reads) reader.ReadSome();
      co_await pause.For(milliseconds(20));
    }
    const std::optional<conf::Duration> in_time = lasted;
    if (connection) connection->Close();
    co_await ended.Wait();
    lasted = in_time;
    (*acceptor)->Close();
    loop.Keep(*std::move(acceptor));
  });
  return lasted;
}

TEST(ServerConnection, AClientThatReadsSlowlyButSteadilyIsNotCut) {
  EXPECT_FALSE(StalledAfter(milliseconds(300), milliseconds(1500), true));
}

TEST(ServerConnection, AClientThatTakesNothingIsClosed) {
  const auto after = StalledAfter(milliseconds(200), milliseconds(5000), false);
  ASSERT_TRUE(after);
  EXPECT_GE(*after, milliseconds(200));
}

}  // namespace
}  // namespace gateway::net::http
