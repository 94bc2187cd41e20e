// HangLook: while a request waits for the first byte of its answer, looks now and then whether its replica is
// taken to hang; when it is, and another one may try, the wait is ended so that the request goes there.
//
// Lives in the frame of what waits. When is router::Attempt's to say.
#pragma once

#include "gateway/exchange.h"
#include "gateway/net/watchdog.h"

namespace gateway {

class HangLook final : private net::Alarm {
 public:
  // `connection` is what is waited for, and outlives this.
  HangLook(Exchange& x, net::Abortable& connection);

  // The wait was ended by this, not by the client's leaving.
  bool left() const { return left_ && !x_.client_gone; }

 private:
  void OnAlarm() override;

  Exchange& x_;
  net::Abortable& connection_;
  bool left_ = false;
};

}  // namespace gateway
