// A gang of engine processes that serve one model together, as engines do whose model needs several nodes: a
// leader, which serves, and workers, which join it by a connection that stays open.
//
// A side that closes the connection, or is silent for `patience`, is gone. A leader without one of its
// workers can no longer serve, nor can a worker without its leader.
//
// Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/transport.h"

namespace tidegate_engine {

struct GangOptions {
  uint32_t workers = 0;     // of a leader: that it waits for; 0: it serves alone
  uint16_t workers_at = 0;  // where they join it
  std::string leader_host;  // of a worker: the leader to join; empty: it is none
  std::string leader_port;
  conf::Duration join_within = std::chrono::minutes(10);
  conf::Duration pulse = std::chrono::seconds(1);  // each side is heard this often
  conf::Duration patience = std::chrono::seconds(10);
};

class GangLeader {
 public:
  using OnLost = std::function<void(std::string why)>;

  // Listens on `address` (an IP literal) and the port of the options. `on_lost` is called once, when a worker
  // that had joined is gone.
  static absl::StatusOr<std::unique_ptr<GangLeader>> Listen(gateway::net::Loop& loop,
                                                            const std::string& address, GangOptions options,
                                                            OnLost on_lost);

  // All workers have joined, and none is gone.
  bool complete() const { return joined_ == options_.workers && !lost_; }
  uint32_t joined() const { return joined_; }
  uint16_t port() const { return acceptor_->port(); }
  // Lets the workers go; it must outlive their connections, which end soon after.
  void Close();

 private:
  GangLeader(gateway::net::Loop& loop, GangOptions options, OnLost on_lost)
      : loop_(loop), options_(std::move(options)), on_lost_(std::move(on_lost)) {}
  gateway::net::Task<void> Keep(std::unique_ptr<gateway::net::Stream> stream);

  gateway::net::Loop& loop_;
  const GangOptions options_;
  const OnLost on_lost_;
  std::unique_ptr<gateway::net::Acceptor> acceptor_;
  std::vector<gateway::net::Stream*> streams_;
  uint32_t joined_ = 0;
  bool lost_ = false;
  bool closing_ = false;
};

class GangWorker {
 public:
  GangWorker(gateway::net::Loop& loop, GangOptions options) : loop_(loop), options_(std::move(options)) {}

  // Joins the leader, which may begin to listen later, and returns when that is gone, with the reason; empty
  // after Close().
  gateway::net::Task<std::string> Run();
  bool joined() const { return joined_; }
  void Close();

 private:
  // False: the leader was not reached, or did not take it.
  gateway::net::Task<bool> Join();

  gateway::net::Loop& loop_;
  const GangOptions options_;
  gateway::net::AbortGroup connecting_;
  gateway::net::Sleep pause_{loop_.watchdog};
  gateway::net::Stream* stream_ = nullptr;
  bool joined_ = false;
  bool closing_ = false;
};

}  // namespace tidegate_engine
