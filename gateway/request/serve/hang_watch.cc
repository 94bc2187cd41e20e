#include "gateway/request/serve/hang_watch.h"

#include "gateway/net/clock.h"

namespace gateway {
namespace {

constexpr conf::Duration kHangCheckInterval = std::chrono::milliseconds(250);

}  // namespace

HangWatch::HangWatch(net::Watchdog& watchdog, const router::Attempt& attempt, const CancelScope& cancel,
                     net::Abortable& connection)
    : Alarm(watchdog), attempt_(attempt), cancel_(cancel), connection_(connection) {
  SetAfter(kHangCheckInterval);
}

void HangWatch::OnAlarm() {
  if (cancel_.cancelled()) return;
  if (!attempt_.MayLeave(net::Now())) {
    SetAfter(kHangCheckInterval);
    return;
  }
  left_ = true;
  connection_.Abort();
}

}  // namespace gateway
