#include "gateway/net/write_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"

namespace gateway::net {
namespace {

using ::testing::ElementsAre;
using tests::TestLoop;

// A stream that echoes one byte, and the other end of its connection.
struct Echo {
  explicit Echo(TestLoop& loop) {
    auto ends = ConnectedPair();
    EXPECT_TRUE(ends.ok());
    peer = std::move(ends->first);
    stream = *StreamOf(loop.io, std::move(ends->second), "peer");
  }

  Task<void> Serve(std::string name, std::vector<std::string>& log) {
    std::array<char, 1> byte{};
    EXPECT_TRUE(co_await stream->Read({byte.data(), 1}));
    log.push_back("read " + name);
    if (closes) stream->Close();
    co_await stream->AwaitBatch();
    const IoResult written = co_await stream->Write(AsBuffer({byte.data(), 1}));
    log.push_back((written ? "wrote " : "failed ") + name);
  }

  void Ask() const { EXPECT_EQ(send(peer.get(), "x", 1, 0), 1); }
  bool Answered() const {
    char byte = 0;
    return recv(peer.get(), &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x';
  }

  Fd peer;
  std::unique_ptr<Stream> stream;
  bool closes = false;
};

TEST(WriteBatch, WritesWhenAllThatWasReadyHasBeenHandled) {
  TestLoop loop([](std::exception_ptr) { FAIL(); });
  const std::array<std::unique_ptr<Echo>, 3> echoes = {
      std::make_unique<Echo>(loop), std::make_unique<Echo>(loop), std::make_unique<Echo>(loop)};
  std::vector<std::string> log;
  for (size_t i = 0; i < echoes.size(); ++i) loop.tasks.Spawn(echoes[i]->Serve(std::to_string(i), log));
  loop.io.poll();
  for (const auto& echo : echoes) echo->Ask();
  loop.Drain();
  // The last one has nothing to wait for.
  EXPECT_THAT(log, ElementsAre("read 0", "read 1", "read 2", "wrote 2", "wrote 0", "wrote 1"));
  for (const auto& echo : echoes) EXPECT_TRUE(echo->Answered());
}

TEST(WriteBatch, WritesAloneAtOnce) {
  TestLoop loop([](std::exception_ptr) { FAIL(); });
  Echo echo(loop);
  std::vector<std::string> log;
  loop.tasks.Spawn(echo.Serve("it", log));
  loop.io.poll();
  echo.Ask();
  EXPECT_EQ(loop.io.run_one(), 1);
  EXPECT_THAT(log, ElementsAre("read it", "wrote it"));
  EXPECT_TRUE(echo.Answered());
}

TEST(WriteBatch, EndsAWriteWhoseStreamIsClosedMeanwhile) {
  TestLoop loop([](std::exception_ptr) { FAIL(); });
  const std::array<std::unique_ptr<Echo>, 2> echoes = {std::make_unique<Echo>(loop),
                                                       std::make_unique<Echo>(loop)};
  echoes[0]->closes = true;
  std::vector<std::string> log;
  for (size_t i = 0; i < echoes.size(); ++i) loop.tasks.Spawn(echoes[i]->Serve(std::to_string(i), log));
  loop.io.poll();
  for (const auto& echo : echoes) echo->Ask();
  loop.Drain();
  EXPECT_THAT(log, ElementsAre("read 0", "read 1", "wrote 1", "failed 0"));
  EXPECT_TRUE(echoes[1]->Answered());
}

TEST(WriteBatch, WritesWhatASocketDoesNotTakeAtOnce) {
  constexpr size_t kBytes = 16u << 20;  // more than the buffers of both sockets
  TestLoop loop([](std::exception_ptr) { FAIL(); });
  Echo ready(loop);
  Echo large(loop);
  std::vector<std::string> log;
  const std::string bytes(kBytes, 'y');
  const auto send_all = [&]() -> Task<void> {
    std::array<char, 1> byte{};
    EXPECT_TRUE(co_await large.stream->Read({byte.data(), 1}));
    co_await large.stream->AwaitBatch();
    const IoResult written = co_await large.stream->Write(AsBuffer(bytes));
    EXPECT_EQ(written.bytes, kBytes);
    large.stream->EndWriting();
  };
  loop.tasks.Spawn(send_all());
  loop.tasks.Spawn(ready.Serve("ready", log));
  loop.io.poll();
  large.Ask();
  ready.Ask();
  size_t read = 0;
  std::string into(1u << 20, '\0');
  for (ssize_t n = 1; n != 0;) {
    loop.io.poll();
    n = recv(large.peer.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (n > 0) read += static_cast<size_t>(n);
    if (n < 0) ASSERT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK);
  }
  EXPECT_EQ(read, kBytes);
  loop.Drain();
  EXPECT_THAT(log, ElementsAre("read ready", "wrote ready"));
}

}  // namespace
}  // namespace gateway::net
