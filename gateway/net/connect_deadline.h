// Aborts a connect that takes too long; a connected stream has an alarm of its own. Lives as long as its
// connector.
#pragma once

#include "gateway/net/transport.h"
#include "gateway/net/watchdog.h"

namespace gateway::net {

class ConnectDeadline final : public Alarm {
 public:
  ConnectDeadline(Watchdog& watchdog, Connector& connector) : Alarm(watchdog), connector_(connector) {}
  bool passed() const { return passed_; }

 private:
  void OnAlarm() override {
    passed_ = true;
    connector_.Abort();
  }

  Connector& connector_;
  bool passed_ = false;
};

}  // namespace gateway::net
