// KeyEvents: carries what happened to API keys from the key store's log into the ledger, each event exactly
// once, whoever wrote it: this process, the command line, or another gateway before this one.
//
// What was carried last stands in a small file, together with how far the ledger had come, and is looked up
// in the ledger itself after that place: so neither a crash between the two writes nor an append whose
// outcome is unknown makes an event appear twice or never. Without the file the whole ledger is looked
// through.
//
// Owner: the process. Thread: one at a time, and not a loop's: it waits for the disk.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "gateway/ledger/ledger.h"
#include "plugins/auth/key_store.h"

namespace gateway {

class KeyEvents {
 public:
  // All must outlive it. `file` is where the last event is remembered.
  KeyEvents(ledger::Ledger& ledger, std::string ledger_dir, const plugins::auth::KeyStore& keys,
            std::string file)
      : ledger_(ledger), ledger_dir_(std::move(ledger_dir)), keys_(keys), file_(std::move(file)) {}

  // Records every event that the ledger does not have. On an error the next call goes on where this one
  // stopped.
  absl::Status CarryOver();

  // The number of the last event that is in the ledger. Any thread.
  uint64_t last() const { return last_.load(std::memory_order_relaxed); }

 private:
  struct Place {
    uint64_t event = 0;       // the last one carried
    uint64_t ledger_seq = 0;  // a record at or after which nothing newer than `event` was known to stand
  };

  absl::Status FindPlace();
  absl::Status Record(const plugins::auth::KeyEvent& event);
  absl::Status Remember();
  Place ReadFile() const;

  ledger::Ledger& ledger_;
  const std::string ledger_dir_;
  const plugins::auth::KeyStore& keys_;
  const std::string file_;
  bool sure_ = false;  // last_ is what the ledger has
  std::atomic<uint64_t> last_{0};
  Place remembered_;
};

// The event's form in the ledger.
ledger::Event ToLedger(const plugins::auth::KeyEvent& event);

}  // namespace gateway
