#include "plugins/sinks/syslog.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace plugins::sinks {
namespace {

using namespace std::chrono_literals;
using gateway::net::Acceptor;
using gateway::net::Now;
using gateway::net::Stream;
using gateway::net::Task;
using tests::Eventually;
using tests::RunOnLoop;
using tests::TempDir;
using tests::TestLoop;

const conf::TimePoint kAt = *conf::ParseTime("2026-11-20T08:30:00.25Z");
const std::vector<Record> kBatch{{7, kAt, R"({"a":"1"})"}, {8, kAt, R"({"a":"2"})"}};

// A socket that a test receives datagrams on.
class Receiver {
 public:
  explicit Receiver(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  Receiver() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port = std::to_string(ntohs(address.sin_port));
  }
  ~Receiver() { close(fd_); }

  std::vector<std::string> All() const {
    std::vector<std::string> messages;
    char bytes[65536];
    for (ssize_t n; (n = recv(fd_, bytes, sizeof(bytes), 0)) >= 0;) messages.emplace_back(bytes, n);
    return messages;
  }

  std::string port;

 private:
  int fd_;
};

TEST(FormatSyslog, IsRfc5424) {
  SyslogFormat format;
  format.hostname = "gw 1";
  EXPECT_EQ(
      FormatSyslog(format, kBatch[0]),
      fmt::format("<134>1 2026-11-20T08:30:00.250000Z gw_1 tidegate {} audit [tidegate@32473 seq=\"7\"] {}",
                  getpid(), R"({"a":"1"})"));
  format.facility = 4;
  format.severity = 5;
  format.hostname.clear();
  EXPECT_TRUE(FormatSyslog(format, kBatch[0]).starts_with("<37>1 2026-11-20T08:30:00.250000Z - tidegate "));
}

TEST(FormatSyslog, CutsAtACharacterAndSaysSo) {
  SyslogFormat format;
  std::string line;
  for (int i = 0; i < 100; ++i) line += "é";
  const size_t whole = FormatSyslog(format, {1, kAt, line}).size();
  for (size_t max = whole - 20; max < whole; ++max) {
    format.max_bytes = max;
    const std::string message = FormatSyslog(format, {1, kAt, line});
    EXPECT_LE(message.size(), max);
    EXPECT_THAT(message, ::testing::HasSubstr("cut=\"true\"] é"));
    EXPECT_TRUE(message.ends_with("é"));
  }
  format.max_bytes = whole;
  EXPECT_TRUE(FormatSyslog(format, {1, kAt, line}).ends_with("seq=\"1\"] " + line));
}

TEST(SyslogSink, SendsDatagramsOverUdpAndUnixSockets) {
  TempDir folder;
  for (const bool udp : {true, false}) {
    const Receiver receiver = udp ? Receiver() : Receiver(folder / "log");
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      SyslogSink::Options options;
      options.transport = udp ? SyslogSink::Transport::kUdp : SyslogSink::Transport::kUnix;
      options.path = folder / "log";
      options.host = "127.0.0.1";
      options.port = receiver.port;
      SyslogSink sink(loop, options);
      EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    });
    const std::vector<std::string> messages = receiver.All();
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0], FormatSyslog({}, kBatch[0]));
    EXPECT_EQ(messages[1], FormatSyslog({}, kBatch[1]));
  }
}

TEST(SyslogSink, ComesBackWhenItsUnixSocketDoes) {
  TempDir folder;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    SyslogSink::Options options;
    options.path = folder / "log";
    SyslogSink sink(loop, options);
    EXPECT_EQ((co_await sink.Deliver(kBatch, kOwnTimeout)).code(), absl::StatusCode::kUnavailable);
    {
      Receiver first(options.path);
      EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    }
    EXPECT_FALSE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    unlink(options.path.c_str());
    Receiver second(options.path);
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_EQ(second.All().size(), 2u);
  });
}

// Takes connections and keeps what comes, as far as it reads.
struct TcpPeer {
  explicit TcpPeer(TestLoop& l) : loop(l) {
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    acceptor = *Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, options,
                                 [this](std::unique_ptr<Stream> stream) {
                                   streams.push_back(std::move(stream));
                                   if (reads) loop.tasks.Spawn(Read(*streams.back()));
                                 });
  }
  Task<void> Read(Stream& stream) {
    char bytes[4096];
    while (const auto n = co_await stream.Read({bytes, sizeof(bytes)})) received.append(bytes, n.bytes);
  }
  void Cut() {
    for (auto& stream : streams) stream->Close();
  }

  TestLoop& loop;
  std::unique_ptr<Acceptor> acceptor;
  std::vector<std::unique_ptr<Stream>> streams;
  std::string received;
  bool reads = true;
};

SyslogSink::Options To(const TcpPeer& peer) {
  SyslogSink::Options options;
  options.transport = SyslogSink::Transport::kTcp;
  options.host = "127.0.0.1";
  options.port = std::to_string(peer.acceptor->port());
  return options;
}

TEST(SyslogSink, ABatchThatTheSocketsQueueCannotHoldArrivesOnceAndInOrder) {
  const TempDir dir;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const Receiver receiver(dir / "log");
    SyslogSink::Options options;
    options.path = dir / "log";
    SyslogSink sink(loop, options);
    std::vector<Record> batch;
    for (uint64_t seq = 1; seq <= 400; ++seq) batch.push_back({seq, kAt, "{}"});
    std::vector<std::string> all;
    bool done = false;
    loop.tasks.Spawn([](SyslogSink& to, std::span<const Record> records, bool& ended) -> Task<void> {
      EXPECT_TRUE((co_await to.Deliver(records, kOwnTimeout)).ok());
      ended = true;
    }(sink, batch, done));
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      for (std::string& message : receiver.All()) all.push_back(std::move(message));
      return done && all.size() >= batch.size();
    }));
    EXPECT_EQ(all.size(), batch.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_THAT(all[i], testing::HasSubstr(fmt::format("seq=\"{}\"", i + 1)));
    }
  });
}

TEST(SyslogSink, GivesUpOnASocketThatNobodyReads) {
  const TempDir dir;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    const Receiver receiver(dir / "log");
    SyslogSink::Options options;
    options.path = dir / "log";
    options.timeout = 50ms;
    SyslogSink sink(loop, options);
    const std::vector<Record> batch(5000, {7, kAt, std::string(1000, 'x')});
    EXPECT_EQ((co_await sink.Deliver(batch, kOwnTimeout)).code(), absl::StatusCode::kDeadlineExceeded);
    options.timeout = 1h;
    SyslogSink patient(loop, options);
    EXPECT_EQ((co_await patient.Deliver(batch, Now() + 50ms)).code(), absl::StatusCode::kDeadlineExceeded);
    gateway::net::Sleep sleep(loop.watchdog);
    loop.tasks.Spawn([](SyslogSink& to, gateway::net::Sleep& pause) -> Task<void> {
      co_await pause.For(1ms);
      to.Close();
    }(patient, sleep));
    EXPECT_FALSE((co_await patient.Deliver(batch, kOwnTimeout)).ok()) << "and at once when it is closed";
  });
}

TEST(SyslogSink, CountsOctetsOverTcpAndReconnectsWhenThePeerHasClosed) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TcpPeer& peer = loop.Keep(std::make_unique<TcpPeer>(loop));
    SyslogSink sink(loop, To(peer));
    std::string expected;
    for (const Record& record : kBatch) {
      const std::string message = FormatSyslog({}, record);
      expected += std::to_string(message.size()) + " " + message;
    }
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return peer.received == expected; }));
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_EQ(peer.streams.size(), 1u);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return peer.received == expected + expected; }));
    peer.Cut();
    // The closing takes a turn of the loop to be seen; from then on a new connection is made.
    EXPECT_TRUE(co_await Eventually(loop, [&, n = 0]() mutable { return ++n == 3; }));
    EXPECT_TRUE((co_await sink.Deliver(kBatch, kOwnTimeout)).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return peer.received == expected + expected + expected; }));
    EXPECT_EQ(peer.streams.size(), 2u);
    sink.Close();
    peer.acceptor->Close();
    peer.Cut();
    const absl::Status dead = co_await sink.Deliver(kBatch, kOwnTimeout);
    EXPECT_EQ(dead.code(), absl::StatusCode::kUnavailable);
  });
}

TEST(SyslogSink, GivesUpOnATcpPeerThatTakesNothing) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TcpPeer& peer = loop.Keep(std::make_unique<TcpPeer>(loop));
    peer.reads = false;
    SyslogSink::Options options = To(peer);
    options.timeout = 200ms;
    options.format.max_bytes = 32u << 20;
    SyslogSink sink(loop, options);
    const std::vector<Record> large{{1, kAt, std::string(16u << 20, 'x')}};
    EXPECT_EQ((co_await sink.Deliver(large, kOwnTimeout)).code(), absl::StatusCode::kDeadlineExceeded);
    options.timeout = 1h;  // it takes no more time than it is given
    SyslogSink hurried(loop, options);
    EXPECT_EQ((co_await hurried.Deliver(large, Now() + 100ms)).code(), absl::StatusCode::kDeadlineExceeded);
    peer.acceptor->Close();
    peer.Cut();
  });
}

}  // namespace
}  // namespace plugins::sinks
