// Heartbeat: sends comments on a stream while its request waits, so that no load balancer closes the silent
// connection.
//
// Lives in the frame of the stage that waits. Await Stop() before anything else is written.
#pragma once

#include "gateway/net/task.h"
#include "gateway/net/watchdog.h"
#include "gateway/request/exchange.h"

namespace gateway {

class Heartbeat final : private net::Alarm {
 public:
  // Only requests for a stream have heartbeats, and only if `interval` or the configuration sets one.
  explicit Heartbeat(Exchange& x, conf::Duration interval = {});
  // co_await this: it waits until a heartbeat that is being written is complete.
  auto Stop() {
    stopped_ = true;
    Clear();
    if (!beating_) done_.Set();
    return done_.Wait();
  }

 private:
  void OnAlarm() override;
  net::Task<void> Beat();

  Exchange& x_;
  const conf::Duration interval_;
  bool beating_ = false;
  bool stopped_ = false;
  net::Event done_;
};

}  // namespace gateway
