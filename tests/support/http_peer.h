// A scripted HTTP peer on the test's loop: keeps the requests, and answers as the test says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/net/http/server.h"
#include "gateway/net/url.h"
#include "tests/support/free_port.h"
#include "tests/support/loop_test.h"

namespace tests {

class HttpPeer {
 public:
  struct Request {
    std::string target;
    std::map<std::string, std::string> headers;
    std::string body;
  };

  explicit HttpPeer(gateway::net::Loop& loop) : loop_(loop) {}

  void Listen() {
    gateway::net::http::Server::Options options;
    options.acceptor.address = fmt::format("127.0.0.1:{}", port_.number());
    auto server = gateway::net::http::Server::Listen(
        loop_, std::move(options),
        [this](gateway::net::http::Exchange& exchange) { return Answer(exchange); });
    ASSERT_TRUE(server.ok()) << server.status();
    servers_.push_back(*std::move(server));
  }
  void Stop() {
    for (auto& server : servers_) server->CloseAll();
  }

  gateway::net::Url url(std::string path) const {
    return {false, "127.0.0.1", fmt::format("{}", port_.number()), std::move(path), {}};
  }

  std::function<int()> status = [] { return 200; };  // 0: no answer at all
  std::vector<Request> seen;

 private:
  gateway::net::Task<void> Answer(gateway::net::http::Exchange& exchange) {
    Request request;
    request.target = exchange.head().target;
    for (const auto& field : exchange.head().fields) request.headers[std::string(field.name)] = field.value;
    request.body = exchange.body();
    seen.push_back(std::move(request));
    const int code = status();
    if (code == 0) {
      gateway::net::Event gone;
      exchange.OnGone([&gone] { gone.Set(); });
      co_await gone.Wait();
      exchange.CloseAfter();
      co_return;
    }
    co_await exchange.Send(code, {}, "");
  }

  gateway::net::Loop& loop_;
  std::vector<std::unique_ptr<gateway::net::http::Server>> servers_;
  FreePort port_;
};

}  // namespace tests
