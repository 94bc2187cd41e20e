// DeferredEvents: events for the ledger that change nothing, so that no caller has to wait until they are on
// disk: each is written on a thread of its own, one at a time and in order, and tried again while the ledger
// cannot take it. An event whose write had an unknown outcome may then be in the ledger twice.
//
// At most kMaxWaiting wait; further ones are only logged. Owner: the Process, on its control loop; destroyed
// after the loop's tasks have ended. Thread: the loop's.
#pragma once

#include <deque>

#include "gateway/ledger/ledger.h"
#include "gateway/net/loop.h"

namespace gateway {

class DeferredEvents {
 public:
  static constexpr size_t kMaxWaiting = 64;

  DeferredEvents(net::Loop& loop, ledger::Ledger& ledger)
      : loop_(loop), ledger_(ledger), pause_(loop.watchdog) {}

  void Add(ledger::Event event);
  // Each that waits is tried once more, and no more.
  void Close();

 private:
  net::Task<void> Write();

  net::Loop& loop_;
  ledger::Ledger& ledger_;
  net::Sleep pause_;
  std::deque<ledger::Event> waiting_;
  bool writing_ = false;
  bool closed_ = false;
};

}  // namespace gateway
