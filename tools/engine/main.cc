// tidegate-engine: an inference engine without a GPU, for the demo, the tests and the benches.
//
// Exit codes: 0 ended by a signal, 1 could not listen, 2 wrong command line.
#include <fmt/format.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>

#include "gateway/net/http/server.h"
#include "gateway/net/loop.h"
#include "tools/engine/options.h"
#include "tools/engine/service.h"

namespace {

void Report(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tidegate-engine: a request failed: {}\n", e.what());
  }
}

int Serve(tidegate_engine::Options options) {
  std::string address = fmt::format("{}:{}", options.listen, options.port);
  std::string listen = options.listen;
  gateway::net::Loop loop(Report);
  const tidegate_engine::KvEventOptions kv_events = options.kv_events;
  tidegate_engine::Service service(loop, std::move(options));
  std::unique_ptr<tidegate_engine::KvPublisher> publisher;
  if (!kv_events.url.empty()) {
    auto opened = tidegate_engine::KvPublisher::Open(loop, kv_events);
    if (!opened.ok()) {
      fmt::print(stderr, "tidegate-engine: cannot publish KV events: {}\n", opened.status().ToString());
      return 1;
    }
    publisher = *std::move(opened);
    service.PublishKvEvents(*publisher);
  }
  gateway::net::http::Server::Options http;
  http.acceptor.address = address;
  http.acceptor.admit = [&](const std::string&) { return service.Admit(); };
  auto server = gateway::net::http::Server::Listen(
      loop, std::move(http),
      [&](gateway::net::http::Exchange& exchange) { return service.Handle(exchange); });
  if (!server.ok()) {
    fmt::print(stderr, "tidegate-engine: cannot listen on {}: {}\n", address, server.status().ToString());
    return 1;
  }
  service.SetAddress(listen, (*server)->port());
  service.SetConnections([&] { return (*server)->connections(); });
  boost::asio::signal_set signals(loop.io, SIGINT, SIGTERM);
  signals.async_wait([&](const gateway::net::ErrorCode& error, int) {
    if (error) return;
    service.Stop();
    publisher.reset();
    (*server)->CloseAll();
    loop.Stop();
  });
  fmt::print("listening on {}:{}\n", listen, (*server)->port());
  std::fflush(stdout);
  loop.Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = 0;
  auto options = tidegate_engine::ParseOptions(argc, argv, exit_code);
  if (!options) return exit_code;
  return Serve(*std::move(options));
}
