// Pool: the idle keep-alive connections of one loop to one server, newest first.
//
// Thread: the loop's. Bounded by `max_idle`; connections idle for longer than `idle_time` are not used again.
#pragma once

#include <memory>
#include <vector>

#include "gateway/net/http/client_connection.h"

namespace gateway::net::http {

class Pool final : private Alarm {
 public:
  struct Options {
    size_t max_idle = 256;
    conf::Duration idle_time = std::chrono::seconds(30);
  };

  Pool(Loop& loop, Remote remote, Options options);

  // An idle connection that is open and has nothing to read, or nothing.
  std::unique_ptr<ClientConnection> TakeIdle(conf::TimePoint now);

  // Takes a connection back after EndExchange() said it may carry another.
  void Return(std::unique_ptr<ClientConnection> connection, conf::TimePoint now);

  const Remote& remote() const { return remote_; }
  size_t idle() const { return idle_.size(); }

 private:
  void OnAlarm() override;

  Remote remote_;
  Options options_;
  std::vector<std::unique_ptr<ClientConnection>> idle_;  // oldest first
};

}  // namespace gateway::net::http
