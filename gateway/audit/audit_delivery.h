// AuditDelivery: carries the ledger's records to one sink, at least once, in order.
//
// Reads after its position, delivers, and only then saves the position: so every record that was not
// delivered comes again, and a few delivered ones may. A failing sink is tried again with back-off without
// end; the lag is visible. A record is never skipped silently: records that are removed from the ledger or
// damaged are counted and reported.
//
// The position holds the record's link of the hash chain beside its number. If the ledger's record of that
// number is another one, or does not exist yet, the ledger is a new one: the sink gets it from its beginning.
//
// Owner: the shell; destroyed after Stop() has returned, or after the loop's tasks have ended. Thread: the
// loop's, except status(). Memory: what one read of the source gave.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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
  uint64_t missing = 0;      // records that were gone from the ledger, or damaged in it, when their turn came
  uint64_t new_ledgers = 0;  // how often the position was found to be another ledger's
  bool failing = false;      // the last try failed
  std::string last_error;
  conf::TimePoint last_error_at;
};

enum class SinkChange : uint8_t { kFails, kDelivers, kMissing, kNewLedger };

class AuditDelivery {
 public:
  using Record = plugins::sinks::Record;

  // What is delivered. read() and link() may wait for the disk: they are called off the loop, one at a time.
  struct Source {
    // At most `max` records after `after_seq`, in order; none when there are none yet. Those that are gone or
    // damaged are left out.
    std::function<absl::StatusOr<std::vector<Record>>(uint64_t after_seq, size_t max)> read;
    // The link of the record with this number; empty when it is not known (any more).
    std::function<absl::StatusOr<std::string>(uint64_t seq)> link;
    // The number of the last record on disk. Any thread.
    std::function<uint64_t()> last_seq;
  };

  struct Options {
    std::string name;  // of the sink: letters, digits, `-`, `_`, `.`
    // As it was saved last; nothing for a new sink.
    std::optional<std::string> position = std::nullopt;
    // Durable when it returns Ok; on the loop.
    std::function<net::Task<absl::Status>(std::string position)> save;
    size_t batch_records = 500;
    conf::Duration batch_interval = std::chrono::seconds(1);  // between batches that are not full
    conf::Duration min_backoff = std::chrono::milliseconds(200);
    conf::Duration max_backoff = std::chrono::minutes(1);
    uint64_t seed = 1;  // of the back-off's jitter
    // When a sink begins to fail or is well again, and when records are missing or of a new ledger; on the
    // loop's thread. May be empty.
    std::function<void(SinkChange, const SinkStatus&)> on_change;
  };

  // Errors name the sink: a position that cannot be read is not taken for a new sink's.
  static absl::StatusOr<std::unique_ptr<AuditDelivery>> Start(net::Loop& loop, Source source,
                                                              std::unique_ptr<plugins::sinks::Sink> sink,
                                                              Options options);
  AuditDelivery(const AuditDelivery&) = delete;
  AuditDelivery& operator=(const AuditDelivery&) = delete;

  // There may be new records: do not wait for the interval. Not while the sink fails.
  void Wake();

  SinkStatus status(conf::TimePoint now) const;  // any thread

  void Close();
  // Delivers what is left, until there is no more, a delivery fails, or `until`; then as Close(). Back when
  // nothing is pending: what was under way before and the sink cannot end early, by its own time-out. Once.
  net::Task<void> Stop(conf::TimePoint until);

 private:
  struct Place {
    uint64_t seq = 0;
    std::string link;  // empty: not known
  };
  static absl::StatusOr<Place> ParsePosition(const Options& options);

  // Closes when the time for the last round is up.
  class Deadline final : public net::Alarm {
   public:
    explicit Deadline(AuditDelivery& delivery) : Alarm(delivery.loop_.watchdog), delivery_(delivery) {}

   private:
    void OnAlarm() override { delivery_.Close(); }
    AuditDelivery& delivery_;
  };

  AuditDelivery(net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink, Options options,
                Place begin);

  net::Task<void> Run();
  net::Task<void> Keep();
  net::Task<absl::Status> CheckPosition();
  net::Task<absl::Status> NextBatch();
  net::Task<absl::Status> DeliverBatch();
  std::span<const Record> batch() const { return std::span(read_).subspan(begin_, count_); }
  void TakeBatch();
  void NoteGap();
  void Delivered(const absl::Status& saved);
  void Failed(const absl::Status& why);
  void NotifyChange(SinkChange change);

  net::Loop& loop_;
  const Source source_;
  const std::unique_ptr<plugins::sinks::Sink> sink_;
  const Options options_;
  const Place begin_at_;
  net::Backoff backoff_;
  size_t max_records_;
  std::vector<Record> read_;  // what the last read gave; in it:
  size_t begin_ = 0;          // the first that is not delivered
  size_t count_ = 0;          // from there, the batch in hand
  bool checked_ = false;      // the position is this ledger's
  bool full_ = false;         // more records were there than the batch took
  bool closed_ = false;
  bool delivering_ = false;               // the sink has the batch in hand
  bool waiting_ = false;                  // for the interval
  bool woken_ = false;                    // since the last batch was read
  std::optional<conf::TimePoint> until_;  // of the last round, once it is that
  net::Sleep pause_;
  Deadline deadline_;
  net::Event ended_;

  mutable std::mutex mutex_;
  SinkStatus status_;                      // guarded by mutex_; written on the loop's thread only
  std::optional<conf::TimePoint> oldest_;  // guarded by mutex_; of the batch in hand
  conf::TimePoint read_at_;                // guarded by mutex_; when the source was last read
};

}  // namespace gateway
