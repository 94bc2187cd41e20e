// StoredEvents: carries events from the store into the ledger, of which the gateway alone writes: what a
// command did beside it, such as an export, or what a leader did by a write of the shared store. An event waits
// in the store until a gateway runs; it is removed once it is in the ledger, and after a crash between the two
// it may be there twice.
//
// Owner: the process; destroyed after the loop's tasks have ended. Thread: the loop's; the ledger is waited
// for on a thread of its own.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gateway/ledger/ledger.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"
#include "gateway/store/store.h"

namespace gateway {

// The object by which an event waits for the ledger. Its time is set when it has none.
store::Write StoredEvent(ledger::Event event);

class StoredEvents {
 public:
  // All must outlive it. `carried`: the ledger has this event.
  StoredEvents(
      net::Loop& loop, store::Store& store, ledger::Ledger& ledger,
      std::function<void(const ledger::Event&)> carried = [](const ledger::Event&) {});

  // Records what waits, and from then on every event as it comes. An error of the store; one of the ledger is
  // tried again.
  net::Task<absl::Status> Start() { return follower_.Start(); }
  void Stop();

 private:
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void CarryLater();
  net::Task<void> CarryOn();
  net::Task<absl::Status> Carry(store::Object object);

  net::Loop& loop_;
  store::Store& store_;
  ledger::Ledger& ledger_;
  const std::function<void(const ledger::Event&)> carried_;
  store::Follower follower_;
  net::Sleep pause_;
  std::map<uint64_t, store::Object> pending_;  // by version, the order in which they came
  bool carrying_ = false;
  bool failing_ = false;
  bool stopped_ = false;
};

}  // namespace gateway
