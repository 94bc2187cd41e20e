// Keys: the API keys of the store: made, rotated and revoked, and read by the shards as immutable tables.
//
// A key is an object of the kind `key`; its change and the event that tells of it (kind `key_event`, on its
// way to the ledger: key_events.h) are one transaction. The table follows the store, so it also shows what
// the command line or another gateway has changed. While the store does not answer, the table stays as it is:
// trouble() says so, and the log does, at once and then every minute.
//
// Owner: the process, or a command for its own run. Thread: the loop's; a table may go to any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/store/follower.h"
#include "gateway/store/store.h"
#include "plugins/auth/key_change.h"
#include "plugins/auth/key_table.h"

namespace gateway {

class Keys final : private net::Alarm {
 public:
  // Both must outlive it.
  Keys(net::Loop& loop, store::Store& store);

  // Loads all keys and follows the store from then on. DataLoss names a key that this version cannot read.
  net::Task<absl::Status> Start();
  void Stop();

  struct Made {
    std::string secret;  // the only copy
    plugins::auth::KeyRecordPtr record;
    uint64_t number = 0;  // of the change, in the store's sequence
  };
  struct Revoked {
    plugins::auth::KeyRecordPtr record;
    uint64_t number = 0;
  };
  // Durable, and in the table, when they return. Errors: those of plugins/auth/key_change.h, and of the store
  // (Unavailable, ResourceExhausted, Unknown); then nothing was changed, but for Unknown.
  net::Task<absl::StatusOr<Made>> Create(plugins::auth::KeySpec spec, conf::TimePoint now);
  net::Task<absl::StatusOr<Made>> Rotate(std::string id, plugins::auth::Rotation rotation,
                                         conf::TimePoint now);
  net::Task<absl::StatusOr<Revoked>> Revoke(std::string id, plugins::auth::Changer changer,
                                            std::string reason, conf::TimePoint now);

  std::shared_ptr<const plugins::auth::KeyTable> Table() const { return table_; }
  std::vector<plugins::auth::KeyRecordPtr> List() const { return table_->List(); }
  // The last change that the table shows.
  uint64_t number() const { return table_->version(); }

  // Why changes of keys do not come in, or which keys are refused since they cannot be read, for people;
  // empty: all is well.
  std::string trouble() const;

  // Calls `told` for every new table.
  void OnTable(std::function<void()> told) { on_table_ = std::move(told); }

 private:
  struct Stored {
    plugins::auth::KeyRecordPtr record;  // null: of a newer version, and of no effect here
    uint64_t version = 0;
  };

  void OnAlarm() override;
  void TakeHealth(const absl::Status& health);
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& id, uint64_t version, const std::string& body);
  void Publish();
  // The key as it is in the store at this moment.
  net::Task<absl::StatusOr<Stored>> Find(std::string id);
  // Commits, and has the table show it. True: the key has changed meanwhile; look again.
  net::Task<absl::StatusOr<bool>> Commit(std::vector<store::Write> writes, uint64_t& number);

  store::Store& store_;
  store::Follower follower_;
  absl::flat_hash_map<std::string, Stored> stored_;
  std::shared_ptr<const plugins::auth::KeyTable> table_ = std::make_shared<plugins::auth::KeyTable>();
  absl::Status unreadable_;  // the last object that could not be read
  absl::Status health_;      // of the store, as far as changes of keys can be read
  std::function<void()> on_table_ = [] {};
};

}  // namespace gateway
