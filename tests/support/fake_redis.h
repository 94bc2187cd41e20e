// A scripted Redis server on the test's loop: speaks RESP, and answers as the test says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/net/redis_protocol.h"
#include "gateway/net/transport.h"
#include "tests/support/free_port.h"
#include "tests/support/loop_test.h"

namespace tests {

class FakeRedis {
 public:
  // The raw answer; absent: none is sent. PING is answered without a call of the handler, unless `silent`.
  using Handler = std::function<std::optional<std::string>(const gateway::net::RedisCommand&)>;

  FakeRedis(gateway::net::Loop& loop, Handler handler) : loop_(loop), handler_(std::move(handler)) {}

  void Listen(std::shared_ptr<const gateway::net::TlsContext> tls = nullptr) {
    gateway::net::Acceptor::Options options;
    options.address = fmt::format("127.0.0.1:{}", port_.number());
    if (tls) options.tls = [tls] { return tls; };
    auto acceptor = gateway::net::Acceptor::Listen(loop_.io, loop_.watchdog, loop_.tasks, options,
                                                   [this](std::unique_ptr<gateway::net::Stream> stream) {
                                                     loop_.tasks.Spawn(Serve(std::move(stream)));
                                                   });
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptors_.push_back(*std::move(acceptor));
  }
  // Stops listening and cuts every connection.
  void Stop() {
    if (!acceptors_.empty()) acceptors_.back()->Close();
    Cut();
  }
  void Cut() {
    for (gateway::net::Stream* stream : streams_) stream->Close();
  }

  gateway::net::Remote remote() const {
    return {"127.0.0.1", fmt::format("{}", port_.number()), nullptr, {}};
  }
  size_t connections() const { return streams_.size(); }

  bool silent = false;
  size_t reads = 0;  // reads that brought commands
  std::vector<gateway::net::RedisCommand> seen;

 private:
  gateway::net::Task<void> Serve(std::unique_ptr<gateway::net::Stream> stream) {
    streams_.insert(stream.get());
    gateway::net::RedisReader reader(1 << 20);
    std::vector<char> in(64 << 10);
    while (true) {
      const gateway::net::IoResult read = co_await stream->Read({in.data(), in.size()});
      if (!read) break;
      reader.Feed({in.data(), read.bytes});
      ++reads;
      std::string answers;
      gateway::net::RedisReply parsed;
      while (reader.Take(parsed) == gateway::net::RedisReader::Next::kReply) {
        gateway::net::RedisCommand command;
        for (auto& word : parsed.elements) command.push_back(std::move(word.text));
        if (silent) continue;
        if (command.front() == "PING") {
          answers += "+PONG\r\n";
          continue;
        }
        seen.push_back(command);
        if (const auto answer = handler_(command)) answers += *answer;
      }
      if (!answers.empty() && !co_await stream->Write(gateway::net::AsBuffer(answers))) break;
    }
    streams_.erase(stream.get());
  }

  gateway::net::Loop& loop_;
  Handler handler_;
  std::vector<std::unique_ptr<gateway::net::Acceptor>> acceptors_;  // the last one listens
  std::set<gateway::net::Stream*> streams_;
  FreePort port_;
};

}  // namespace tests
