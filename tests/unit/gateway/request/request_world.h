// The parts of a request below the exchange, with a real shard and runtime: a request in the state in which the
// earlier stages leave it, and a replica whose answers the test chooses.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/server.h"
#include "gateway/request/outgoing_request.h"
#include "tests/support/temp_dir.h"

namespace gateway {

// A client's stream that has a request's head and nothing after it.
class HeadStream final : public net::Stream {
 public:
  HeadStream(net::Loop& loop, std::string head) : loop_(loop), head_(std::move(head)) {}

  void AsyncRead(net::MutableBuffer into, net::Completion& done) override {
    const size_t n = head_.copy(static_cast<char*>(into.data()), into.size());
    head_.erase(0, n);
    if (n > 0) {
      loop_.Post([&done, n] { done.Complete({}, n); });
    } else {
      reader_ = &done;
    }
  }
  void AsyncWrite(std::span<const net::ConstBuffer> from, net::Completion& done) override {
    size_t n = 0;
    for (const net::ConstBuffer& part : from) n += part.size();
    loop_.Post([&done, n] { done.Complete({}, n); });
  }
  net::IoResult TryWrite(std::span<const net::ConstBuffer>) override { return {}; }
  uint64_t Acknowledged() override { return 0; }
  bool HasPeerEnded() override { return false; }
  bool IsQuiet() override { return true; }
  void Close() override {
    if (net::Completion* const reader = std::exchange(reader_, nullptr))
      loop_.Post([reader] { reader->Complete(boost::asio::error::eof, 0); });
  }
  void ResetOnClose() override {}
  void EndWriting() override {}
  const std::string& PeerAddress() const override { return peer_; }

 private:
  net::Loop& loop_;
  std::string head_;
  net::Completion* reader_ = nullptr;
  const std::string peer_ = "127.0.0.1";
};

class RequestWorld {
 public:
  explicit RequestWorld(ledger::FileOps* files = &ledger::FileOps::Posix()) {
    ledger::Options options;
    options.dir = dir / "ledger";
    options.files = files;
    shared.ledger = *ledger::Ledger::Open(options);
    shard.emplace(0, shared, 1);
  }
  ~RequestWorld() {
    for (const auto& server : servers_) server->CloseAll();
    shard->loop.Stop();
    shard->loop.Run();
    servers_.clear();
    shard.reset();
  }

  // `models`: a list in YAML; `more`: further sections.
  void Configure(std::string_view models, std::string_view more = "") {
    const std::string text = fmt::format(
        "server: {{listen: '127.0.0.1:0', state_dir: {}}}\ntenants: [{{name: demo, models: "
        "['*']}}]\n{}\nmodels:\n{}\n",
        dir.path(), more, models);
    LoadResult loaded = ParseConfig(text, "t.yaml", SystemSources());
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
    runtime = *Runtime::Build(*std::move(loaded.config), shared.learned(), net::Now());
    shard->metrics.Bind(runtime->names());
  }

  template <class T>
  T Await(net::Task<T> task) {
    return net::Await(shard->loop, std::move(task));
  }

  ReplicaId ReplicaNamed(std::string_view name) const {
    for (const router::Replica& replica : runtime->routes().replicas())
      if (runtime->replica(replica.id).config->name == name) return replica.id;
    ADD_FAILURE() << "no replica " << name;
    return kNoReplica;
  }

  // A replica that answers with the result of `answer` for a request's path and body.
  struct Answer {
    int status = 200;
    std::string body;
  };
  using Replica = std::function<Answer(const net::http::Exchange&)>;
  uint16_t StartReplica(Replica answer) {
    net::http::Server::Options options;
    options.acceptor.address = "127.0.0.1:0";
    auto server = net::http::Server::Listen(
        shard->loop, std::move(options), [answer](net::http::Exchange& exchange) -> net::Task<void> {
          const Answer given = answer(exchange);
          co_await exchange.Send(given.status, {{"content-type", "application/json"}}, given.body);
        });
    EXPECT_TRUE(server.ok()) << server.status();
    servers_.push_back(*std::move(server));
    return servers_.back()->port();
  }

  tests::TempDir dir;
  Shared shared;
  std::optional<Shard> shard;
  std::shared_ptr<const Runtime> runtime;

 private:
  std::vector<std::unique_ptr<net::http::Server>> servers_;
};

// One request of a client: `headers` are whole lines with CRLF.
class TestRequest {
 public:
  TestRequest(RequestWorld& world, router::Api api, std::string_view body, std::string_view headers = "")
      : world_(world),
        text_(std::string(body) + std::string(net::Buffer::kPadding, '\0')),
        connection_(world.shard->loop,
                    std::make_unique<HeadStream>(world.shard->loop,
                                                 fmt::format("POST /v1{} HTTP/1.1\r\nhost: test\r\n{}\r\n",
                                                             router::SpecOf(api).path, headers)),
                    limits_),
        client(connection_) {
    EXPECT_EQ(world.Await(connection_.ReadHead()), net::http::ServerConnection::Status::kOk);
    identity.id = world.shard->NewRequestId(net::Now(), identity.id_text);
    identity.spec = &router::SpecOf(api);
    this->body.text = std::string_view(text_).substr(0, body.size());
    this->body.whole = true;
    EXPECT_FALSE(world.shard->scanner.Scan(this->body.text, api, this->body.facts)) << body;
    const auto found = world.runtime->routes().Find(this->body.facts.model.view());
    EXPECT_TRUE(found) << body;
    model = found.value_or(kNoModel);
    this->body.prompt_tokens = world.runtime->model(model).estimate->Prompt(
        this->body.facts.prompt_bytes, this->body.facts.prompt_tokens, this->body.facts.media_parts);
  }
  ~TestRequest() { world_.Await(End()); }

  OutgoingRequest outgoing() {
    return {*world_.shard, world_.runtime, model, client, identity, body, output_cap};
  }

 private:
  net::Task<bool> End() {
    co_await connection_.Shutdown();
    co_return true;
  }

  RequestWorld& world_;
  const std::string text_;
  const net::http::ConnectionLimits limits_;
  net::http::ServerConnection connection_;

 public:
  Client client;
  Identity identity;
  RequestBody body;
  ModelId model{};
  std::optional<int64_t> output_cap;
};

}  // namespace gateway
