// NeighbourServer: the store of this node, as other nodes' fetches read it (neighbour_document.h has the addresses).
//
// It serves complete weights alone, by their digest and their files' hashes: no name of a file comes from a request,
// and no link is followed. It holds their lease meanwhile, and changes nothing but that lease. Each request but
// GET /healthz needs the token.
//
// Bounded: connections in all, and the time in which a client must take each block. Each of its threads has a loop,
// which reading the disk blocks.
//
// Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conf/time.h"
#include "gateway/net/http/server_connection.h"
#include "gateway/net/tls.h"
#include "gateway/net/transport.h"
#include "plugins/weights/store.h"

namespace plugins::weights {

class NeighbourServer {
 public:
  static constexpr size_t kBlock = 512U << 10;

  // A file that was sent, or a part of one.
  struct Sent {
    std::string id{};    // of the weights
    std::string path{};  // of the file
    std::string peer{};
    uint64_t bytes = 0;  // taken by the client
    uint64_t of = 0;     // requested by the client
    conf::Duration took{};
  };
  struct Options {
    std::string address{};  // for example 0.0.0.0:9470
    std::string token{};
    std::shared_ptr<const gateway::net::TlsContext> tls{};  // null: plain
    size_t connections = 64;
    uint32_t threads = 4;
    conf::Duration block_time = std::chrono::seconds(30);  // in which a client takes kBlock, or is cut off
    gateway::net::http::ConnectionLimits limits{.head = {},
                                                .body_bytes = 0,
                                                .idle = std::chrono::seconds(30),
                                                .head_time = std::chrono::seconds(10),
                                                .body_time = std::chrono::seconds(10),
                                                .write_stall = std::chrono::seconds(20)};
    std::function<void(const Sent&)> on_sent = [](const Sent&) {};  // any of the threads
  };

  // Unavailable: the address is in use.
  static absl::StatusOr<std::unique_ptr<NeighbourServer>> Start(const Store& store, Options options);
  // Cuts off its clients.
  ~NeighbourServer();

  uint16_t port() const { return socket_->port(); }

 private:
  class Worker;
  NeighbourServer(Options options, std::shared_ptr<gateway::net::ListeningSocket> socket);

  const Options options_;
  std::shared_ptr<gateway::net::ListeningSocket> socket_;
  std::atomic<size_t> connections_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::jthread> threads_;
};

}  // namespace plugins::weights
