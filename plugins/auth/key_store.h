// API keys: made, rotated, revoked, and read by the shards as immutable tables.
//
// Owner: the gateway (one for the process), or a CLI command for its own run; both may write the same file at
// once. Thread: all calls may come from any thread. Table(), Version() and Changed() never wait; the others
// wait for the disk and for other writers (see key_log.h), so they belong on no loop's thread. A table with
// what was read stays in force whatever fails later.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "plugins/auth/api_key.h"
#include "plugins/auth/key_log.h"
#include "plugins/auth/key_table.h"

namespace plugins::auth {

// Who changes a key. Below the role admin nobody changes an admin key.
struct Changer {
  std::string by{};
  Role role = Role::kAdmin;
};

struct Rotation {
  conf::Duration overlap{};  // how long the old key works beside the new one; zero: not at all
  std::optional<conf::TimePoint> expires{};  // of the new key; else it lives as long as the old one was given
  Changer changer{};
};

class KeyStore {
 public:
  // `path` is commonly <state_dir>/keys.jsonl; the folder must exist. Fails where the file is damaged.
  static absl::StatusOr<std::unique_ptr<KeyStore>> Open(std::string path, conf::TimePoint now);

  // On disk before it returns. `secret` in the answer is the only copy of the key. A time that is not whole
  // microseconds is cut to them.
  absl::StatusOr<NewKey> Create(const KeySpec& spec, conf::TimePoint now);

  // A new key with everything of the old one, which works until now + overlap (or its own earlier expiry).
  // FailedPrecondition for a key that no longer works or was rotated before, PermissionDenied for one that is
  // not the changer's to change, by what the log says at this moment.
  absl::StatusOr<NewKey> Rotate(std::string_view id, const Rotation& rotation, conf::TimePoint now);

  // For good. FailedPrecondition when it was revoked before, PermissionDenied as for Rotate. A key's
  // replacement is a key of its own.
  absl::Status Revoke(std::string_view id, const Changer& changer, std::string_view reason,
                      conf::TimePoint now);

  std::vector<KeyRecordPtr> List() const { return Table()->List(); }

  // Whether Refresh() may find something. One stat call, and never a wait: false while another call is at
  // work on the log.
  bool Changed() const;

  // Takes in what other processes appended; true when that changed the table. One stat call when nothing did.
  absl::StatusOr<bool> Refresh(conf::TimePoint now);

  // In order and without a gap, for a ledger that remembers the last number it took.
  absl::StatusOr<std::vector<KeyEvent>> EventsSince(uint64_t after, size_t limit) const;

  std::shared_ptr<const KeyTable> Table() const;
  uint64_t Version() const { return version_.load(std::memory_order_acquire); }

 private:
  explicit KeyStore(std::unique_ptr<KeyLog> log) : log_(std::move(log)) {}

  absl::Status Apply(const KeyEvent& event);
  // The record of a key that `changer` may change, and that was not revoked.
  absl::StatusOr<const KeyRecord*> FindUnrevoked(std::string_view id, const Changer& changer) const;
  absl::StatusOr<const KeyRecord*> FindUsable(std::string_view id, const Changer& changer,
                                              conf::TimePoint now) const;
  NewKey FreshKey() const;
  void Publish();

  mutable std::mutex log_mutex_;  // guards log_ and records_; held while the disk works
  std::unique_ptr<KeyLog> log_;
  KeyTable::Map records_;

  mutable std::mutex table_mutex_;  // guards table_; held for a pointer copy
  std::shared_ptr<const KeyTable> table_ = std::make_shared<const KeyTable>();
  std::atomic<uint64_t> version_{0};
};

}  // namespace plugins::auth
