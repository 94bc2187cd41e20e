// Heartbeat: sends comments on a stream while its request waits, so that no load balancer closes a silent
// connection.
//
// Lives in the frame of the stage that waits; Stop() must be awaited before anything else is written.
#pragma once

#include "gateway/net/task.h"
#include "gateway/net/watchdog.h"
#include "gateway/request/exchange.h"

namespace gateway {

class Heartbeat final : private net::Alarm {
 public:
  // Only requests for a stream have heartbeats, and only if `interval` or the configuration gives an
  // interval.
  explicit Heartbeat(Exchange& x, conf::Duration interval = {});
  // co_await: until the heartbeat in hand is written.
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
