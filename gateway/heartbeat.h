// Heartbeat: comments on a stream while its request waits, so that no load balancer takes silence for death.
//
// Lives in the frame of the stage that waits; Stop() is awaited before anything else is written.
#pragma once

#include "gateway/exchange.h"
#include "gateway/net/task.h"
#include "gateway/net/watchdog.h"

namespace gateway {

class Heartbeat final : private net::Alarm {
 public:
  // Beats only for requests that asked for a stream, and only if the configuration gives an interval, or
  // `interval` does.
  explicit Heartbeat(Exchange& x, conf::Duration interval = {});
  net::Task<void> Stop();

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
