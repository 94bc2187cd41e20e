// The ledger of a gateway: records the use of every request and every change by an operator, as one hash-chained
// sequence on disk. README.md describes the format.
//
// Owner: the process. A lock makes sure that a directory has only one Ledger. It owns a thread, which is the only
// writer of the segments, and a journal for each shard. Shards write to their own journal; other threads use Append.
//
// Failures: Open fails if the directory cannot be used. After that no write error is fatal: Healthy() becomes false,
// opens are refused, running requests may finish, and their records wait in the journals (which always have room for
// every close) until the disk accepts them again.
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
  std::string dir;          // state_dir/ledger; created if it is missing
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
  uint64_t retain_bytes = 0;                           // 0: no bound
  conf::Duration retention_interval = std::chrono::minutes(1);
  conf::Duration append_timeout = std::chrono::seconds(5);
  conf::Duration stop_timeout = std::chrono::seconds(5);
  uint64_t event_queue_bytes = 4 << 20;
  bool counts_served = false;                                 // TakeServed will be called
  std::string version;                                        // of the process, for its start record
  std::function<void(const absl::Status&)> on_health_change;  // on the ledger thread
  // Called on the ledger thread when retention begins to fail, or works again. Does not affect Healthy().
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
  uint64_t lag_us = 0;        // the longest time that one of them may have waited
  uint64_t open_requests = 0;
  uint64_t refused_opens = 0;
  uint64_t dropped_records = 0;  // refusals and content that found no room
  std::string last_error;
  bool retention_failing = false;  // retention cannot remove a segment that is due
};

class Ledger {
 public:
  // Recovers the records of an earlier process, writes them and the start record, then begins. FailedPrecondition:
  // another process uses the directory.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(Options options);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // The journal of shard `i`, for that shard's thread only.
  ShardJournal& Shard(uint32_t i) { return *journals_[i]; }

  // False: refuse new work with 503.
  bool Healthy() const { return healthy_.load(std::memory_order_relaxed); }

  // For strict durability: a request is forwarded only after its open record is on disk. `then` runs on the ledger
  // thread: with OK at that moment, or with Unavailable if the disk fails or the ledger stops first. Called at most
  // once for each open request.
  void OnDurable(Position position, std::function<void(const absl::Status&)> then);
  bool IsDurable(Position position) const {
    return durable_n_[position.shard].load(std::memory_order_acquire) >= position.n;
  }

  // Records a change of configuration, keys or administration, or a scheduling action, and returns when it is on
  // disk. Any thread except a shard's; blocks up to `append_timeout`. InvalidArgument: the detail is not a JSON
  // object, or the record is larger than kMaxEvent. ResourceExhausted: the queue is full. Unavailable: the record
  // could not be written in time; the message says whether it may still be written.
  absl::Status Append(Event event);
  // Appends several events together, like Append(DeviceRecords) below. Blocks.
  absl::Status AppendAll(std::vector<Event> events);

  // Appends several records together: in this order, with no other record between them, all on disk when it returns.
  // After an error, the first few of them, or all, may be on disk; that is settled when a later Flush succeeds. Blocks.
  absl::Status Append(std::vector<DeviceRecord> records);

  // The tokens that replicas served since the last call, by tenant, also for requests that are still open. Counts
  // everything that was recorded before the call. Needs Options::counts_served. Blocks.
  absl::StatusOr<std::vector<Served>> TakeServed();

  // Returns when everything recorded before the call is on disk; Unavailable after `append_timeout`.
  absl::Status Flush();

  // Writes the waiting records and the stop record, and ends the thread. Records that cannot be written within
  // `stop_timeout` stay in the journals for the next start. No shard may record after this; the destructor calls it.
  absl::Status Stop();

  Stats GetStats() const;
  std::string PublicKeyPem() const { return key_.public_key().Pem(); }

 private:
  struct Queued {
    std::vector<Event> events{};
    std::vector<DeviceRecord> devices{};
    bool barrier = false;       // has nothing to write; waits for earlier records
    bool takes_served = false;  // a barrier that calls TakeServed
    std::vector<Served> served{};
    std::vector<uint64_t> until{};  // for a barrier: where each shard's ring ended
    bool taken = false;             // the ledger thread has taken it
    bool done = false;
    bool abandoned = false;  // its caller has stopped waiting
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
  // Writes one batch. `*more`: the batch was full, so the next one follows without a pause.
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

  // Only for the ledger thread.
  std::unique_ptr<Committer> committer_;
  std::vector<uint64_t> cursor_;     // per shard: the position in its ring
  std::vector<uint64_t> drained_n_;  // per shard
  uint32_t first_shard_ = 0;         // the shard with which the next batch begins
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
