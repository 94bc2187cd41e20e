#include "gateway/audit/deferred_events.h"

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway {
namespace {

constexpr conf::Duration kRetry = std::chrono::seconds(1);

}  // namespace

void DeferredEvents::Add(ledger::Event event) {
  if (waiting_.size() >= kMaxWaiting) {
    log::Error("the queue of the ledger is full; event not recorded",
               {{"action", event.action}, {"actor", event.actor}});
    return;
  }
  if (event.time_us == 0) event.time_us = conf::ToUnixMicros(net::Now());
  waiting_.push_back(std::move(event));
  if (writing_) return;
  writing_ = true;
  loop_.tasks.Spawn(Write());
}

void DeferredEvents::Close() {
  closed_ = true;
  pause_.Cancel();
}

net::Task<void> DeferredEvents::Write() {
  while (!waiting_.empty()) {
    const absl::Status written =
        co_await net::OffLoop(loop_, [this, event = waiting_.front()] { return ledger_.Append(event); });
    if (written.ok() || absl::IsInvalidArgument(written)) {
      if (!written.ok()) log::Error("not recorded", {{"why", conf::Std(written.message())}});
      waiting_.pop_front();
    } else if (closed_) {
      // Each try may take seconds, and the process is asked to go.
      log::Error("not recorded", {{"why", conf::Std(written.message())}, {"events", waiting_.size()}});
      waiting_.clear();
    } else {
      co_await pause_.For(kRetry);
    }
  }
  writing_ = false;
}

}  // namespace gateway
