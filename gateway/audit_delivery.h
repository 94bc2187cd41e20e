// AuditDelivery: carries the ledger's records to one sink, at least once, in order.
//
// Reads after its cursor, delivers, and only then writes the cursor (`<folder>/<name>.cursor`, atomically):
// whatever happens, the records that were not delivered come again, and a few that were may. A sink that
// fails is tried again with back-off for as long as it takes; the lag is visible. A record is never skipped:
// if the ledger has removed segments that the sink had not had, the gap is counted and said.
//
// Owner: the shell; destroyed after Stop() has returned, or after the loop's tasks have ended. Thread: the
// loop's, except status(). Memory: one batch.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "plugins/sinks/sink.h"

namespace gateway {

struct SinkStatus {
  std::string name;
  std::string target;          // as the sink describes itself
  uint64_t delivered_seq = 0;  // all up to here
  uint64_t lag_records = 0;
  conf::Duration lag{};  // age of the oldest record that is not delivered
  uint64_t records = 0;  // delivered since the start
  uint64_t failures = 0;
  uint64_t missing = 0;  // records that were gone from the ledger before they could be delivered
  bool failing = false;  // the last try failed
  std::string last_error;
  conf::TimePoint last_error_at;
};

class AuditDelivery {
 public:
  using Record = plugins::sinks::Record;

  struct Source {
    // At most `max` records after `after_seq`, in order; none when there are none yet. Loop's thread.
    std::function<absl::StatusOr<std::vector<Record>>(uint64_t after_seq, size_t max)> read;
    // Of the last record that is on disk. Any thread.
    std::function<uint64_t()> last_seq;
  };

  struct Options {
    std::string name;    // of the sink: letters, digits, `-`, `_`, `.`
    std::string folder;  // for the cursor; made when it is missing
    size_t batch_records = 500;
    conf::Duration batch_interval = std::chrono::seconds(1);  // between batches that are not full
    conf::Duration min_backoff = std::chrono::milliseconds(200);
    conf::Duration max_backoff = std::chrono::minutes(1);
    uint64_t seed = 1;  // of the back-off's jitter
    // When a sink begins to fail or is well again, and when records are missing; on the loop's thread. May be
    // empty.
    std::function<void(const SinkStatus&)> on_change;
  };

  // Reads the cursor and starts. Errors name the file: a cursor that cannot be read is not taken for a new
  // one.
  static absl::StatusOr<std::unique_ptr<AuditDelivery>> Start(net::Loop& loop, Source source,
                                                              std::unique_ptr<plugins::sinks::Sink> sink,
                                                              Options options);
  AuditDelivery(const AuditDelivery&) = delete;
  AuditDelivery& operator=(const AuditDelivery&) = delete;

  // There may be new records: do not wait for the interval. Not while the sink fails.
  void Wake();

  SinkStatus status(conf::TimePoint now) const;  // any thread

  void Close();
  // Close(), and back when a pending delivery has ended. Once.
  net::Task<void> Stop();

 private:
  AuditDelivery(net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink, Options options,
                std::string cursor_path, uint64_t cursor);

  net::Task<void> Run();
  net::Task<void> Keep();
  absl::Status NextBatch();
  net::Task<absl::Status> DeliverBatch();
  void NoteGap();
  void Delivered(const absl::Status& saved);
  void Failed(const absl::Status& why);
  void Tell();

  net::Loop& loop_;
  const Source source_;
  const std::unique_ptr<plugins::sinks::Sink> sink_;
  const Options options_;
  const std::string cursor_path_;
  net::Backoff backoff_;
  std::vector<Record> batch_;
  size_t max_records_;
  bool full_ = false;  // more records were there than the batch took
  bool closed_ = false;
  bool waiting_ = false;  // for the interval
  bool woken_ = false;    // since the last batch was read
  net::Sleep pause_;
  net::Event ended_;

  mutable std::mutex mutex_;
  SinkStatus status_;                      // guarded by mutex_; written on the loop's thread only
  std::optional<conf::TimePoint> oldest_;  // guarded by mutex_; of the batch in hand
  conf::TimePoint read_at_;                // guarded by mutex_; when the source was last read
};

}  // namespace gateway
