// HangWatch: checks regularly, while a request waits for the first byte of its answer, whether its replica seems to
// hang. If so, and another replica may try, it ends the wait, so that the request goes there.
//
// Lives in the frame that waits. router::Attempt decides when to leave.
#pragma once

#include "gateway/net/watchdog.h"
#include "gateway/request/cancel_scope.h"
#include "router/attempt.h"

namespace gateway {

class HangWatch final : private net::Alarm {
 public:
  // `connection`: the one that the request waits for. All arguments outlive this.
  HangWatch(net::Watchdog& watchdog, const router::Attempt& attempt, const CancelScope& cancel,
            net::Abortable& connection);

  // The watch ended the wait, and the request was not cancelled.
  bool left() const { return left_ && !cancel_.cancelled(); }

 private:
  void OnAlarm() override;

  const router::Attempt& attempt_;
  const CancelScope& cancel_;
  net::Abortable& connection_;
  bool left_ = false;
};

}  // namespace gateway
