// KeyEvents: carries events of API keys from the store into the ledger, each event exactly once. Keys are
// changed by this process, the command line, or an earlier gateway.
//
// A change of a key writes its event as an object of the kind `key_event`, in the same transaction. The event
// is removed once it is in the ledger. A crash between the two, or an append whose outcome is unknown, leaves
// an event that may be in the ledger already: the ledger is then read from a position on that the store
// keeps, and an event of the same action and key is not recorded again. (Nothing happens to one key twice.)
//
// Owner: the process. Thread: the loop's; the ledger is waited for on a thread of its own.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/ledger/ledger.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"
#include "gateway/store/store.h"
#include "plugins/auth/key_record.h"

namespace gateway {

class KeyEvents final : private net::Alarm {
 public:
  // All must outlive it.
  KeyEvents(net::Loop& loop, store::Store& store, ledger::Ledger& ledger, std::string ledger_dir);
  ~KeyEvents() override;

  // Records what is not in the ledger yet, and from then on every event as it comes. An error of the store;
  // one of the ledger is tried again.
  net::Task<absl::Status> Start();
  void Stop();

  // Back when every event that was committed before the call is in the ledger.
  net::Task<absl::Status> CarryOver();

  // How many events are not in the ledger.
  size_t unrecorded() const { return pending_.size(); }

 private:
  // As the store has it. By version, which is the order in which the events happened.
  struct Pending {
    store::Object object;
    plugins::auth::KeyEvent event;
  };

  void OnAlarm() override;
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& id, uint64_t version, const std::string& body);
  void CarryLater();
  net::Task<void> CarryOn();
  net::Task<absl::Status> CarryLocked();
  net::Task<absl::Status> ReadPosition();
  // Off the loop. Appends what is not in the ledger, in order; how many of them are there now.
  size_t Record(const std::vector<Pending>& events, absl::Status& status);
  absl::Status FindRecorded();
  net::Task<absl::Status> Remove(const std::vector<Pending>& recorded);

  net::Loop& loop_;
  store::Store& store_;
  ledger::Ledger& ledger_;
  const std::string ledger_dir_;
  store::Follower follower_;
  net::AsyncMutex turn_;
  std::map<uint64_t, Pending> pending_;
  std::optional<store::Object> position_;  // as stored; none: not read, or none there
  bool position_read_ = false;
  uint64_t ledger_seq_ = 0;  // no pending event stands in the ledger before it
  bool carrying_ = false;
  bool failing_ = false;
  bool stopped_ = false;

  // Used by Record alone, one call at a time (turn_).
  bool sure_ = false;               // recorded_ is what the ledger has
  std::set<std::string> recorded_;  // ids of events found in the ledger
};

// The object by which an event waits for the ledger.
store::Write PendingEvent(const plugins::auth::KeyEvent& event);

// The object that says from where on the ledger may hold events that still wait.
store::Write KeyEventsPosition(uint64_t ledger_seq);

// The event's form in the ledger.
ledger::Event ToLedger(const plugins::auth::KeyEvent& event);

}  // namespace gateway
