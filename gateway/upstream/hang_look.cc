#include "gateway/upstream/hang_look.h"

#include "gateway/net/clock.h"
#include "gateway/shard.h"

namespace gateway {
namespace {

constexpr conf::Duration kBetweenHangLooks = std::chrono::milliseconds(250);

}  // namespace

HangLook::HangLook(Exchange& x, net::Abortable& connection)
    : Alarm(x.shard.loop.watchdog), x_(x), connection_(connection) {
  SetAfter(kBetweenHangLooks);
}

void HangLook::OnAlarm() {
  if (x_.client_gone) return;
  if (!x_.attempt->MayLeave(net::Now())) {
    SetAfter(kBetweenHangLooks);
    return;
  }
  left_ = true;
  connection_.Abort();
}

}  // namespace gateway
