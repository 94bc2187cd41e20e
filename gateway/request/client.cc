#include "gateway/request/client.h"

namespace gateway {
namespace {

constexpr conf::Duration kClientPollInterval = std::chrono::milliseconds(50);

}  // namespace

void Client::Leave() {
  cancel_.MarkCancelled();
  net::Abortable* const waited_for = cancel_.running();
  // If the request waits for the operation beside it, `waited_for` is null, and the abort may destroy this.
  if (beside_) beside_->Cancel();
  if (waited_for) waited_for->Abort();
}

ClientPoll::ClientPoll(net::Watchdog& watchdog, Client& client) : Alarm(watchdog), client_(client) {
  SetAfter(kClientPollInterval);
}

void ClientPoll::OnAlarm() {
  if (client_.connection().HasPeerLeft()) {
    client_.Leave();
  } else {
    SetAfter(kClientPollInterval);
  }
}

}  // namespace gateway
