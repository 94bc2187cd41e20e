#include "gateway/request/heartbeat.h"

#include "gateway/request/answer.h"
#include "gateway/shard/shard.h"

namespace gateway {

Heartbeat::Heartbeat(Exchange& x, conf::Duration interval)
    : Alarm(x.shard.loop.watchdog),
      x_(x),
      interval_(interval.count() > 0 ? interval : x.runtime->config().server.heartbeat) {
  if (x.body.facts.stream && interval_.count() > 0) SetAfter(interval_);
}

void Heartbeat::OnAlarm() {
  beating_ = true;
  x_.shard.loop.tasks.Spawn(Beat());
}

net::Task<void> Heartbeat::Beat() {
  const bool written = !x_.client.gone() && co_await SendHeartbeat(x_);
  beating_ = false;
  if (stopped_) {
    done_.Set();
  } else if (written) {
    SetAfter(interval_);
  }
}

}  // namespace gateway
