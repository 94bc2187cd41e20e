#include "gateway/net/http/client_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/loop_test.h"

namespace gateway::net::http {
namespace {

using tests::TestLoop;
using Status = ClientConnection::Status;

// Gives one piece a read, then the end.
class ScriptedStream final : public Stream {
 public:
  ScriptedStream(Loop& loop, std::vector<std::string> pieces) : loop_(loop), pieces_(std::move(pieces)) {}

  void AsyncRead(MutableBuffer into, Completion& done) override {
    const std::string piece = next_ < pieces_.size() ? pieces_[next_++] : "";
    std::memcpy(into.data(), piece.data(), piece.size());
    const ErrorCode error = piece.empty() ? ErrorCode(asio::error::eof) : ErrorCode();
    loop_.Post([&done, error, n = piece.size()] { done.Complete(error, n); });
  }
  void AsyncWrite(std::span<const ConstBuffer>, Completion&) override {}
  IoResult TryWrite(std::span<const ConstBuffer>) override { return {}; }
  uint64_t Acknowledged() override { return 0; }
  bool HasPeerEnded() override { return false; }
  bool IsQuiet() override { return true; }
  void Close() override {}
  void ResetOnClose() override {}
  void EndWriting() override {}
  const std::string& PeerAddress() const override { return peer_; }

 private:
  Loop& loop_;
  const std::vector<std::string> pieces_;
  const std::string peer_ = "script";
  size_t next_ = 0;
};

constexpr HeadLimits kLimits{4096, 50};
constexpr const char* kChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(ClientConnection, DataBeforeAMalformedChunkIsDelivered) {
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const std::vector<std::string> pieces{std::string(kChunked) + "2\r\nab\r\n", "2\r\ncd\r\nno size"};
    ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, pieces));
    connection.BeginExchange();
    EXPECT_EQ(co_await connection.ReadHead(kLimits), Status::kOk);
    EXPECT_EQ(connection.payload(), "ab");
    connection.Take(2);
    EXPECT_EQ(co_await connection.ReadSome(), Status::kMalformed);
    EXPECT_EQ(connection.payload(), "cd");
    EXPECT_FALSE(connection.EndExchange());
  });
}

TEST(ClientConnection, DistinguishesTruncatedFromCompleteAnswers) {
  const struct {
    std::vector<std::string> pieces;
    Status last;
    bool reusable;
  } cases[] = {
      {{std::string(kChunked) + "2\r\nab\r\n", "0\r\n\r\n"}, Status::kOk, true},
      {{std::string(kChunked) + "2\r\nab\r\n"}, Status::kClosed, false},
      {{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "cd"}, Status::kOk, true},
      {{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "c"}, Status::kClosed, false},
      {{"HTTP/1.1 200 OK\r\n\r\nab", "cd"}, Status::kOk, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.pieces.back());
    tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
      ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, c.pieces));
      connection.BeginExchange();
      Status status = co_await connection.ReadHead(kLimits);
      while (status == Status::kOk && !connection.done()) status = co_await connection.ReadSome();
      EXPECT_EQ(status, c.last);
      EXPECT_EQ(connection.EndExchange(), c.reusable);
    });
  }
}

// What follows a 101 is another protocol's, and the client asked for none.
TEST(ClientConnection, AnAnswerThatIsNotHttpIsMalformed) {
  std::string many;
  for (int i = 0; i < 20; ++i) many += "HTTP/1.1 103 Early Hints\r\n\r\n";
  const std::string whole = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  for (const std::string& answer :
       {std::string("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        std::string("HTTP/1.1 099 Odd\r\n\r\n"), std::string("HTTP/1.1 999 Odd\r\n\r\n"), many + whole}) {
    SCOPED_TRACE(answer.substr(0, 40));
    tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
      ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, std::vector{answer}));
      connection.BeginExchange();
      EXPECT_EQ(co_await connection.ReadHead(kLimits), Status::kMalformed);
      EXPECT_FALSE(connection.EndExchange());
    });
  }
}

TEST(ClientConnection, BytesBeyondTheFramingEndTheConnection) {
  const std::string next = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen";
  const std::vector<std::vector<std::string>> answers = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" + next},
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "b" + next},
      {std::string(kChunked) + "2\r\nab\r\n0\r\n\r\n" + next},
      {"HTTP/1.1 204 No Content\r\n\r\n" + next},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n\n"},
  };
  for (const auto& pieces : answers) {
    SCOPED_TRACE(pieces.front());
    tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
      ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, pieces));
      connection.BeginExchange();
      Status status = co_await connection.ReadHead(kLimits);
      while (status == Status::kOk && !connection.done()) status = co_await connection.ReadSome();
      EXPECT_EQ(status, Status::kOk);
      EXPECT_THAT(connection.payload(), testing::Not(testing::HasSubstr("stolen")));
      EXPECT_FALSE(connection.EndExchange());
    });
  }
}

// Its deadline belongs to the read: whoever passes on what came may take longer than that.
TEST(ClientConnection, TheTimeOfAReadEndsWithIt) {
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const std::vector<std::string> pieces{std::string(kChunked) + "2\r\nab\r\n", "2\r\ncd\r\n", "0\r\n\r\n"};
    ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, pieces));
    connection.BeginExchange();
    EXPECT_EQ(co_await connection.ReadHead(kLimits), Status::kOk);
    const conf::Duration patience = std::chrono::milliseconds(30);
    EXPECT_EQ(co_await connection.ReadSome(Now() + patience), Status::kOk);
    Sleep slow(loop.watchdog);
    co_await slow.For(4 * patience);
    EXPECT_EQ(co_await connection.ReadSome(Now() + patience), Status::kOk);
    EXPECT_TRUE(connection.EndExchange());
  });
}

TEST(ClientConnection, AKeptHeadOutlivesTheBytesThatItWasReadFrom) {
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const std::string other(3000, 'z');
    const std::vector<std::string> pieces{
        "HTTP/1.1 200 Fine\r\nX-Engine: blue\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        "bb8\r\n" + other + "\r\n", "0\r\n\r\n"};
    ClientConnection connection(loop, std::make_unique<ScriptedStream>(loop, pieces));
    connection.BeginExchange();
    EXPECT_EQ(co_await connection.ReadHead(kLimits), Status::kOk);
    connection.KeepHead();
    connection.Take(2);
    connection.KeepHead();  // again: it is kept already
    EXPECT_EQ(co_await connection.ReadSome(), Status::kOk);
    EXPECT_EQ(connection.payload(), other);
    EXPECT_EQ(connection.head().reason, "Fine");
    EXPECT_EQ(connection.head().Find("x-engine"), "blue");
  });
}

}  // namespace
}  // namespace gateway::net::http
