#include "gateway/net/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/loop_test.h"

namespace gateway::net {
namespace {

using tests::TestLoop;

// A peer whose calls take effect at once, in the middle of whatever the loop does.
class Peer {
 public:
  explicit Peer(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Peer() { Close(); }

  void Send(std::string_view bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void EndWriting() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    Close();
  }

 private:
  int fd_;
};

struct Read {
  Stream* open = nullptr;
  std::string bytes;
  bool ended = false;
  ErrorCode error;
};

Task<void> ReadToTheEnd(std::unique_ptr<Stream> stream, Read& read, size_t at_once) {
  std::vector<char> buffer(at_once);
  read.open = stream.get();
  while (!read.ended) {
    const IoResult result = co_await stream->Read(MutableBuffer(buffer.data(), buffer.size()));
    read.bytes.append(buffer.data(), result.bytes);
    read.error = result.error;
    read.ended = static_cast<bool>(result.error);
  }
}

// What the peer does while the stream's read is pending and the loop is busy, so that all of it is there when
// the loop looks next; then all of it must be read, and the end be seen.
Read WhenThePeer(const std::function<void(Peer&)>& does, size_t at_once = 4096) {
  Read read;
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    auto acceptor = Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(options),
                                     [&](std::unique_ptr<Stream> stream) {
                                       loop.tasks.Spawn(ReadToTheEnd(std::move(stream), read, at_once));
                                     });
    EXPECT_TRUE(acceptor.ok());
    Peer peer((*acceptor)->port());
    peer.Send("a");
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return read.bytes == "a"; }));
    does(peer);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return read.ended; })) << "the end was not seen";
    if (!read.ended) read.open->Close();
    peer.Close();
    (*acceptor)->Close();
    loop.Keep(*std::move(acceptor));
  });
  return read;
}

TEST(Stream, SeesBytesAndTheEndThatCameWithThem) {
  const Read read = WhenThePeer([](Peer& peer) {
    peer.Send("bc");
    peer.EndWriting();
  });
  EXPECT_EQ(read.bytes, "abc");
  EXPECT_EQ(read.error, asio::error::eof);
}

TEST(Stream, SeesTheResetThatCameWithBytes) {
  const Read read = WhenThePeer([](Peer& peer) {
    peer.Send("bc");
    peer.Reset();
  });
  EXPECT_TRUE(read.ended);
  EXPECT_NE(read.error, asio::error::eof);
}

TEST(Stream, SeesTheEndThatComesAfterTheBytesWereRead) {
  for (const bool reset : {false, true}) {
    const Read read = WhenThePeer([&](Peer& peer) { reset ? peer.Reset() : peer.Close(); });
    EXPECT_EQ(read.bytes, "a");
    EXPECT_TRUE(read.ended);
  }
}

TEST(Stream, ReadsAllThatCameAtOnceInPieces) {
  const std::string many(10'000, 'x');
  for (const size_t at_once : {1ul, 7ul, 4096ul, 10'000ul, 20'000ul}) {
    const Read read = WhenThePeer(
        [&](Peer& peer) {
          peer.Send(many);
          peer.EndWriting();
        },
        at_once);
    EXPECT_EQ(read.bytes.size(), many.size() + 1) << at_once;
  }
}

TEST(ConnectedPair, CarriesBytesAndTheEndWithinTheProcess) {
  tests::RunOnLoop([](TestLoop& loop) -> Task<void> {
    auto ends = ConnectedPair();
    EXPECT_TRUE(ends.ok()) << ends.status();
    if (!ends.ok()) co_return;
    auto one = StreamOf(loop.io, std::move(ends->first), "one");
    auto other = StreamOf(loop.io, std::move(ends->second), "other");
    EXPECT_TRUE(one.ok() && other.ok());
    EXPECT_EQ((*other)->PeerAddress(), "other");
    EXPECT_TRUE(static_cast<bool>(co_await (*one)->Write(AsBuffer("hello"))));
    std::array<char, 16> buffer{};
    const IoResult read = co_await (*other)->Read(MutableBuffer(buffer.data(), buffer.size()));
    EXPECT_EQ(std::string_view(buffer.data(), read.bytes), "hello");
    (*one)->Close();
    EXPECT_TRUE((co_await (*other)->Read(MutableBuffer(buffer.data(), buffer.size()))).error.failed());
    (*other)->Close();
  });
}

}  // namespace
}  // namespace gateway::net
