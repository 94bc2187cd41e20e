// Server: the listener of one shard, whose requests run through the pipeline.
//
// Thread: the shard's, but for the address counts, which all shards share.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <memory>
#include <mutex>
#include <string>

#include "gateway/api/error.h"
#include "gateway/net/fd.h"
#include "gateway/net/http/listener.h"
#include "gateway/net/tls_holder.h"
#include "gateway/process/memory_return.h"
#include "gateway/request/on_behalf.h"
#include "gateway/shard/shard.h"

namespace gateway {

// Counts open connections, in all and by address. Thread-safe; bounded by the connections themselves.
class ConnectionCounts {
 public:
  bool Admit(const std::string& ip, const config::ServerLimits& limits);
  void Leave(const std::string& ip);
  // Of a connection inside the process, which is never refused.
  void EnterOwn();
  void LeaveOwn();
  size_t open() const;

 private:
  mutable std::mutex mutex_;
  size_t open_ = 0;
  absl::flat_hash_map<std::string, uint32_t> by_address_;
};

class Server final : private net::http::Listener::Handler {
 public:
  Server(Shard& shard, ConnectionCounts& counts, const net::TlsHolder* tls);

  // Takes its turn at the connections of a listener that all shards share; `accepts`: and accepts for others.
  absl::Status Listen(std::shared_ptr<net::ListeningSocket> socket, bool accepts);

  // Serves the one request that the gateway sends itself on the other end of this connection.
  void ServeOwn(net::Fd connection, OnBehalf caller);

  // Accepts no new connections and ends the idle ones; running requests continue.
  void Drain() { listener_.Drain(); }
  // Ends the remaining connections.
  void CloseAll();

 private:
  using Client = net::http::Listener::Client;

  void OnOpen() override;
  void OnClosed(const Client& client) override;
  net::Task<bool> Serve(Client& client, net::http::ServerConnection::Status head) override;
  net::Task<void> AnswerOwn(std::unique_ptr<net::Stream> stream, OnBehalf caller);
  net::Task<void> RefuseHead(net::http::ServerConnection& connection, api::Code code, std::string_view why);
  void UpdateLimits();

  Shard& shard_;
  ConnectionCounts& counts_;
  const net::TlsHolder* tls_;
  net::http::ConnectionLimits limits_;
  net::http::Listener listener_{shard_.loop, limits_, *this};
  absl::flat_hash_set<net::http::ServerConnection*> own_;
  MemoryReturn memory_{shard_.loop};
};

}  // namespace gateway
