// The ledger of a gateway: the use of every request and every change by an operator, as one hash-chained
// sequence of records on disk. README.md describes the format.
//
// Owner: the process; one Ledger per directory, kept by a lock on it. It owns a thread, which is the only
// writer of the segments, and a journal for each shard. Shards talk to their own journal; other threads use
// Append.
//
// Failures: Open fails when the directory cannot be used. After that no write error is fatal: Healthy() turns
// false, opens are refused, running requests may finish, and their records wait in the journals (which always
// have room for every close) until the disk accepts them again.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/committer.h"
#include "gateway/ledger/journal.h"

namespace gateway::ledger {

struct Recovered;

struct Options {
  std::string dir;          // state_dir/ledger; made when missing
  std::string journal_dir;  // empty: `dir`. On tmpfs journals cost no disk writes and survive the process,
                            // not the host
  uint32_t shards = 1;
  uint32_t open_requests_per_shard = 4096;
  uint64_t ring_bytes = 8 << 20;  // per shard; a power of two
  conf::Duration commit_interval = std::chrono::milliseconds(20);
  uint64_t segment_bytes = 64 << 20;
  conf::Duration segment_age = std::chrono::hours(24);
  uint64_t checkpoint_records = 50'000;
  conf::Duration checkpoint_interval = std::chrono::seconds(5);
  conf::Duration retain_for = conf::Duration::zero();  // 0: for ever
  uint64_t retain_bytes = 0;                           // 0: without bound
  conf::Duration retention_interval = std::chrono::minutes(1);
  conf::Duration append_timeout = std::chrono::seconds(5);
  conf::Duration stop_timeout = std::chrono::seconds(5);
  uint64_t event_queue_bytes = 4 << 20;
  bool counts_served = false;                                 // TakeServed will be called
  std::string version;                                        // of the process, for its start record
  std::function<void(const absl::Status&)> on_health_change;  // on the ledger thread
  // When retention begins to fail, or works again; on the ledger thread. The ledger is healthy all the same.
  std::function<void(const absl::Status&)> on_retention_change;
  std::function<conf::TimePoint()> clock;  // default: the system's
  FileOps* files = nullptr;                // default: POSIX
};

struct Stats {
  bool healthy = true;
  uint64_t records = 0;      // written since the start
  uint64_t durable_seq = 0;  // the last record on disk
  uint64_t batches = 0;
  uint64_t commit_us_last = 0;  // write and sync of a batch
  uint64_t commit_us_max = 0;
  uint64_t commit_us_total = 0;
  uint64_t queued_bytes = 0;  // in the journals, not yet on disk
  uint64_t lag_us = 0;        // how long the oldest of them may have waited
  uint64_t open_requests = 0;
  uint64_t refused_opens = 0;
  uint64_t dropped_records = 0;  // refusals and content for which there was no room
  std::string last_error;
  bool retention_failing = false;  // segments stay that retention should remove
};

class Ledger {
 public:
  // Recovers the records of an earlier process, writes them and the start record, then begins.
  // FailedPrecondition when another process holds the directory.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(Options options);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // The journal of shard `i`, for that shard's thread only.
  ShardJournal& Shard(uint32_t i) { return *journals_[i]; }

  // False: refuse new work with 503.
  bool Healthy() const { return healthy_.load(std::memory_order_relaxed); }

  // For strict durability: a request is forwarded only after its open record is on disk. `then` runs on the
  // ledger thread, with OK at that moment, or Unavailable when the disk fails or the ledger stops first. At
  // most one for each open request.
  void OnDurable(Position position, std::function<void(const absl::Status&)> then);
  bool IsDurable(Position position) const {
    return durable_n_[position.shard].load(std::memory_order_acquire) >= position.n;
  }

  // Records a change of configuration, keys or administration, or a scheduling action, and returns when it is
  // on disk. Any thread but a shard's; blocks up to `append_timeout`. InvalidArgument: the detail is not a
  // JSON object, or the record is larger than kMaxEvent. ResourceExhausted: the queue is full. Unavailable:
  // the disk does not take it; the message says whether it may still be written.
  absl::Status Append(Event event);
  // Appends several events as one, as Append(DeviceRecords) below. Blocks.
  absl::Status AppendAll(std::vector<Event> events);

  // Appends several as one: in this order, with nothing between them, all on disk when it returns. After an
  // error the first few of them, or all, may be on disk; a later Flush that succeeds decides it. Blocks.
  absl::Status Append(std::vector<DeviceRecord> records);

  // The tokens that replicas served since the last call, by tenant, including requests that are still open:
  // everything recorded before the call. Only with Options::counts_served. Blocks.
  absl::StatusOr<std::vector<Served>> TakeServed();

  // Returns when everything recorded before the call is on disk; Unavailable after `append_timeout`.
  absl::Status Flush();

  // Writes the waiting records and the stop record, and ends the thread. Records that the disk does not take
  // within `stop_timeout` stay in the journals for the next start. No shard may record after this; the
  // destructor calls it.
  absl::Status Stop();

  Stats GetStats() const;
  std::string PublicKeyPem() const { return key_.public_key().Pem(); }

 private:
  struct Queued {
    std::vector<Event> events{};
    std::vector<DeviceRecord> devices{};
    bool barrier = false;       // nothing to write
    bool takes_served = false;  // a barrier that does
    std::vector<Served> served{};
    std::vector<uint64_t> until{};  // a barrier's: per shard, where its ring ended
    bool taken = false;             // by the ledger thread
    bool done = false;
    bool abandoned = false;  // its waiter is gone
  };
  struct Waiter {
    uint64_t n;
    std::function<void(const absl::Status&)> then;
  };

  Ledger(Options options, net::Fd lock, SigningKey key);
  absl::Status Begin(Recovered found);
  void Replay(Recovered* found);
  absl::Status MakeJournals(const Recovered& found, bool recorded);
  absl::Status Enqueue(std::shared_ptr<Queued> entry);
  void Run();
  // One batch. `*more`: it was cut at the batch size, do not wait for the next.
  absl::Status Cycle(bool* more);
  bool HasWork();
  bool TakeWork();
  bool Reached(const Queued& entry) const;
  void TakeServed(Queued& entry);
  void Settle();
  void RunWaiters(const absl::Status& status);
  void Abandon();
  void SetHealth(const absl::Status& status);
  void SetRetention(const absl::Status& status);

  const Options options_;
  const net::Fd lock_;
  const SigningKey key_;
  std::atomic<bool> healthy_{true};
  std::vector<std::unique_ptr<ShardJournal>> journals_;
  std::unique_ptr<std::atomic<uint64_t>[]> durable_n_;

  // The ledger thread's own.
  std::unique_ptr<Committer> committer_;
  std::vector<uint64_t> cursor_;     // per shard, in its ring
  std::vector<uint64_t> drained_n_;  // per shard
  uint32_t first_shard_ = 0;         // where the next batch begins
  std::vector<std::shared_ptr<Queued>> taken_;
  bool retention_failing_ = false;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::condition_variable settled_;
  bool woken_ = false;
  bool stopping_ = false;
  std::deque<std::shared_ptr<Queued>> queue_;
  uint64_t queue_bytes_ = 0;
  std::vector<std::deque<Waiter>> waiters_;  // per shard, by rising n
  Stats stats_;
  std::chrono::steady_clock::time_point settled_at_;
  std::thread thread_;
  absl::Status stop_status_;
};

}  // namespace gateway::ledger
