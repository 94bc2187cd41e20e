// Server: one shard's listener: accepts clients, reads their requests one after another, and runs each
// through the pipeline.
//
// Thread: the shard's, but for the address counts, which all shards share.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "gateway/api/error.h"
#include "gateway/net/http/server_connection.h"
#include "gateway/net/tls_holder.h"
#include "gateway/net/transport.h"
#include "gateway/shard/shard.h"

namespace gateway {

// Counts open connections, in all and by address. Thread-safe; bounded by the connections themselves.
class ConnectionCounts {
 public:
  bool Admit(const std::string& ip, const config::ServerLimits& limits);
  void Leave(const std::string& ip);
  size_t open() const;

 private:
  mutable std::mutex mutex_;
  size_t open_ = 0;
  absl::flat_hash_map<std::string, uint32_t> by_address_;
};

class Server {
 public:
  Server(Shard& shard, ConnectionCounts& counts, const net::TlsHolder* tls);
  ~Server();

  // The port that was bound: `address` may ask for any.
  absl::StatusOr<uint16_t> Listen(const config::Address& address);

  // Takes no new connections and ends the idle ones; requests under way go on.
  void Drain();
  // Ends the remaining connections.
  void CloseAll();

 private:
  struct Client;

  net::Task<void> Serve(std::unique_ptr<net::Stream> stream);
  net::Task<bool> ServeOne(Client& client);
  net::Task<void> RefuseHead(net::http::ServerConnection& connection, api::Code code, std::string_view why);
  void UpdateLimits();

  Shard& shard_;
  ConnectionCounts& counts_;
  const net::TlsHolder* tls_;
  net::http::ConnectionLimits limits_;
  std::vector<std::unique_ptr<net::Acceptor>> acceptors_;
  std::unordered_set<Client*> clients_;
  bool draining_ = false;
};

}  // namespace gateway
