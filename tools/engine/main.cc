// tidegate-engine: an inference engine without a GPU, for the demo, the tests and the benches.
//
// Exit codes: 0 ended by a signal, 1 could not listen, 2 wrong command line, 3 lost a member of its gang.
#include <fmt/format.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "gateway/net/http/server.h"
#include "gateway/net/loop.h"
#include "gateway/net/standard_descriptors.h"
#include "gateway/net/transport.h"
#include "tools/engine/gang.h"
#include "tools/engine/options.h"
#include "tools/engine/service.h"

namespace {

constexpr int kCannotListen = 1;
constexpr int kLostMember = 3;

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
  const tidegate_engine::GangOptions gang = options.gang;
  tidegate_engine::Service service(loop, std::move(options));
  std::unique_ptr<tidegate_engine::KvPublisher> publisher;
  if (!kv_events.url.empty()) {
    auto opened = tidegate_engine::KvPublisher::Open(loop, kv_events);
    if (!opened.ok()) {
      fmt::print(stderr, "tidegate-engine: cannot publish KV events: {}\n", opened.status().ToString());
      return kCannotListen;
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
    return kCannotListen;
  }
  service.SetAddress(listen, (*server)->port());
  service.SetConnections([&] { return (*server)->connections(); });
  std::unique_ptr<tidegate_engine::GangLeader> leader;
  boost::asio::signal_set signals(loop.io, SIGINT, SIGTERM);
  const auto end = [&] {
    if (leader) leader->Close();
    service.Stop();
    publisher.reset();
    (*server)->CloseAll();
    signals.cancel();
    loop.Stop();
  };
  int exit_code = 0;
  if (gang.workers > 0) {
    // Listeners share ports: the workers of another gang would come here.
    if (!gateway::net::PortIsFree(gang.workers_at)) {
      fmt::print(stderr, "tidegate-engine: cannot listen for workers: port {} is taken\n", gang.workers_at);
      return kCannotListen;
    }
    auto listening = tidegate_engine::GangLeader::Listen(loop, listen, gang, [&](const std::string& why) {
      fmt::print(stderr, "tidegate-engine: {}; it cannot serve without all of its {} workers\n", why,
                 gang.workers);
      exit_code = kLostMember;
      end();
    });
    if (!listening.ok()) {
      fmt::print(stderr, "tidegate-engine: cannot listen for workers on {}:{}: {}\n", listen, gang.workers_at,
                 listening.status().ToString());
      return kCannotListen;
    }
    leader = *std::move(listening);
    service.SetComplete([&] { return leader->complete(); });
  }
  signals.async_wait([&](const gateway::net::ErrorCode& error, int) {
    if (!error) end();
  });
  fmt::print("listening on {}:{}\n", listen, (*server)->port());
  std::fflush(stdout);
  loop.Run();
  return exit_code;
}

gateway::net::Task<void> RunWorker(tidegate_engine::GangWorker& worker, conf::Duration load,
                                   gateway::net::Sleep& loading, std::string& why) {
  if (load > conf::Duration::zero() && !co_await loading.For(load)) co_return;
  why = co_await worker.Run();
}

// A worker serves nothing: it only joins its leader.
int Work(const tidegate_engine::Options& options) {
  gateway::net::Loop loop(Report);
  tidegate_engine::GangWorker worker(loop, options.gang);
  gateway::net::Sleep loading(loop.watchdog);
  std::string why;
  boost::asio::signal_set signals(loop.io, SIGINT, SIGTERM);
  signals.async_wait([&](const gateway::net::ErrorCode& error, int) {
    if (error) return;
    loading.Cancel();
    worker.Close();
  });
  loop.tasks.Spawn(RunWorker(worker, options.profile.load_time, loading, why));
  loop.tasks.WhenIdle([&] {
    signals.cancel();
    loop.Stop();
  });
  loop.Run();
  if (why.empty()) return 0;
  fmt::print(stderr, "tidegate-engine: {}\n", why);
  return kLostMember;
}

}  // namespace

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = 0;
  auto options = tidegate_engine::ParseOptions(argc, argv, exit_code);
  if (!options) return exit_code;
  return options->gang.leader_host.empty() ? Serve(*std::move(options)) : Work(*options);
}
