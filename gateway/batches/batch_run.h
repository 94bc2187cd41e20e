// BatchRun: a batch while it runs: which lines are still to do, which wait after a refusal, and what was
// answered and is not on disk yet.
//
// Lines stand in lanes, one for each model, so that a model without room delays only its own lines. After a
// refusal a lane rests, longer each time, and then begins with one line; each answer lets twice as many go.
//
// Of a shared batch, results on the disk count once they are committed (result_commit.h). If that takes too long, nothing
// more is sent: after a kill, another gateway would send it again.
//
// Owner: Batches, and its own tasks. Thread: the loop's; what blocks runs beside it.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/batches/batch.h"
#include "gateway/batches/input_index.h"
#include "gateway/batches/result_files.h"
#include "gateway/net/fd.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"

namespace gateway::batches {

class BatchRun : public std::enable_shared_from_this<BatchRun> {
 public:
  struct Line {
    size_t lane = 0;
    LineRef ref = {};
    std::string custom_id = {};
    std::string body = {};
    uint32_t tries = 0;  // that failed
  };
  // Why a batch ends before its last line.
  struct End {
    BatchState state = BatchState::kCancelled;
    std::string code = {};
    std::string message = {};
  };

  // Where the input lies, and its key, as KeptFile has them.
  struct Input {
    std::string path = {};
    ledger::ContentKeyRef key = {};
  };

  // Of a shared batch, as Sharing has them.
  struct CommitTimes {
    conf::Duration age = {};
    conf::Duration held_back_age = {};
  };

  // `wake` is called when there may be something to send.
  BatchRun(net::Loop& loop, Batch batch, Input input, ResultFiles files, std::function<void()> wake,
           CommitTimes times);

  // Reads what is done and what is left. An error: it can be tried again.
  net::Task<absl::Status> Open(IndexOptions options);

  // The next line that may go now; nothing: none, see NextAt().
  std::optional<Line> Take(conf::TimePoint now);
  // When a lane that rests goes on; nothing: no lane with lines rests.
  std::optional<conf::TimePoint> NextAt(conf::TimePoint now) const;

  // A line that was taken: it has its result, ...
  void Ended(const Line& line, LineResult result);
  // ... it waits for room, at least so long, ...
  void Wait(Line line, std::optional<conf::Duration> least, conf::TimePoint now);
  // ... or it was cut short, and nothing is known of it.
  void Drop(const Line& line);

  // How to cut a running line short.
  void OnBegun(uint32_t number, std::function<void()> abort) { aborts_[number] = std::move(abort); }
  // Nothing more is sent. Lines that run go on until Abort().
  void EndBy(End end, conf::TimePoint now);
  void Abort();
  const std::optional<End>& end() const { return end_; }
  std::optional<conf::TimePoint> end_asked() const { return end_asked_; }

  // Waits until no line runs, all results are on disk, and nothing is left or the batch is to end.
  net::Task<void> AwaitEnd();
  // Gives every line that is left the reason of the end. An error: it can be tried again.
  net::Task<absl::Status> WriteRest();
  net::Task<absl::Status> RemoveEmptyFiles();
  // Writes what waits once more, and no more; AwaitEnd returns.
  void Stop();
  bool stopped() const { return stopped_; }
  // Likewise: another gateway runs the batch now.
  void Lose();
  bool lost() const { return lost_; }

  // After Open: whether the disk has all results of a shared batch that count.
  bool HasCommitted() const;
  // What is on the disk, of a shared batch.
  const ResultFiles::Progress& on_disk() const { return progress_; }
  const ResultFiles& files() const { return files_; }
  // The results up to there count now; `began`: when they were looked at.
  void OnCommitted(const ResultFiles::Progress& until, conf::TimePoint began);
  // The next commit is not to come before; `why` the last one failed.
  void OnCommitFailed(std::string why, conf::TimePoint now);
  // Whether results that do not count yet are to be committed now.
  bool CommitDue(conf::TimePoint now) const;
  uint64_t uncommitted() const;  // bytes
  // Nothing more is sent, since results have waited for too long.
  bool HeldBack(conf::TimePoint now) const;
  const std::string& why_uncommitted() const { return why_uncommitted_; }
  // Batches sets these while it commits the results.
  bool committing = false;
  bool finishing = false;
  bool told_paused = false;

  static constexpr uint64_t kCommitBytes = uint64_t{8} << 20;
  static constexpr uint64_t kHeldBackBytes = uint64_t{256} << 20;

  const Batch& batch() const { return batch_; }
  LineCounts counts() const;
  const BatchUsage& usage() const { return progress_.usage; }
  uint64_t waiting() const;
  uint64_t in_flight() const { return in_flight_; }
  // Results that are not on disk yet: after a kill their lines are sent again.
  size_t unwritten() const { return pending_.size() + being_written_; }
  uint64_t output_bytes() const { return files_.output_bytes(); }
  uint64_t error_bytes() const { return files_.error_bytes(); }

  static constexpr conf::Duration kFirstRest = std::chrono::milliseconds(500);
  static constexpr conf::Duration kLongestRest = std::chrono::minutes(1);

 private:
  struct Lane {
    std::string model;
    std::deque<LineRef> waiting;
    std::deque<Line> ready;  // read
    bool reading = false;
    uint32_t in_flight = 0;
    uint32_t allowed = ~0u;  // in flight at once
    conf::Duration rest = kFirstRest;
    conf::TimePoint rests_until{};
  };

  net::Task<void> ReadAhead(std::shared_ptr<BatchRun> self, size_t lane);
  absl::StatusOr<std::vector<Line>> ReadLines(const std::vector<LineRef>& refs);
  net::Task<void> WriteResults(std::shared_ptr<BatchRun> self);
  void Left(const Line& line);
  bool HasEnded() const;
  void Changed();
  void Count(const ResultFiles::Progress& written);

  net::Loop& loop_;
  const Batch batch_;
  const Input input_;
  ResultFiles files_;
  const std::function<void()> wake_;
  const CommitTimes times_;
  std::mutex reading_;  // lanes read on threads of their own
  std::optional<KeptFile> kept_input_;
  std::vector<Lane> lanes_;
  size_t next_lane_ = 0;
  uint64_t total_ = 0;
  uint64_t in_flight_ = 0;
  ResultFiles::Progress progress_;
  std::vector<LineResult> pending_;
  size_t being_written_ = 0;
  bool writing_ = false;
  bool write_failed_ = false;
  bool read_failed_ = false;
  ResultFiles::Progress committed_;
  conf::TimePoint uncommitted_since_{};  // while there is something that does not count yet
  conf::TimePoint commit_again_{};
  conf::Duration commit_pause_ = kFirstRest;
  std::string why_uncommitted_;
  bool lost_ = false;
  std::optional<End> end_;
  std::optional<conf::TimePoint> end_asked_;
  absl::flat_hash_map<uint32_t, std::function<void()>> aborts_;  // by the number of the line
  bool stopped_ = false;
  net::Event ended_;
};

}  // namespace gateway::batches
