#include "gateway/net/http/pool.h"

#include <algorithm>

#include "gateway/net/clock.h"

namespace gateway::net::http {

Pool::Pool(Loop& loop, Remote remote, Options options)
    : Alarm(loop.watchdog), remote_(std::move(remote)), options_(options) {}

std::unique_ptr<ClientConnection> Pool::TakeIdle(conf::TimePoint now) {
  while (!idle_.empty()) {
    std::unique_ptr<ClientConnection> connection = std::move(idle_.back());
    idle_.pop_back();
    // However short it was idle: what a server has written since its last answer would be taken for the next
    // one, and that may be another client's.
    if (now - connection->idle_since() < options_.idle_time && connection->IsQuiet()) return connection;
  }
  return nullptr;
}

void Pool::Return(std::unique_ptr<ClientConnection> connection, conf::TimePoint now) {
  if (idle_.size() >= options_.max_idle) return;
  connection->set_idle_since(now);
  idle_.push_back(std::move(connection));
  if (!armed()) Set(now + options_.idle_time);
}

void Pool::OnAlarm() {
  const conf::TimePoint now = Now();
  const auto fresh = std::find_if(idle_.begin(), idle_.end(), [&](const auto& connection) {
    return now - connection->idle_since() < options_.idle_time;
  });
  idle_.erase(idle_.begin(), fresh);
  if (!idle_.empty()) Set(idle_.front()->idle_since() + options_.idle_time);
}

}  // namespace gateway::net::http
