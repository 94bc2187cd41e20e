#include "gateway/routing/log.h"

#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/thread.h"

namespace gateway::routing {
namespace {

constexpr int kNice = 10;
// The thread waits this long, or until this many bytes are queued, and writes all records together: to wake the thread
// for each record would cost more than to write it.
constexpr auto kGather = std::chrono::milliseconds(50);
constexpr size_t kGatheredBytes = RoutingLog::kMaxQueuedBytes / 4;
constexpr size_t kPieceBytes = size_t{32} << 10;  // of a write

}  // namespace

RoutingLog::RoutingLog(std::string state_dir) : files_(std::move(state_dir)) {
  thread_ = std::thread([this] { Run(); });
}

RoutingLog::~RoutingLog() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void RoutingLog::Configure(const config::RoutingLog& config) {
  const std::lock_guard lock(mutex_);
  config_ = config;
}

void RoutingLog::Add(Record record) {
  const size_t bytes = BytesOf(record);
  const std::lock_guard lock(mutex_);
  if (queued_bytes_ + bytes > kMaxQueuedBytes) {
    ++stats_.dropped_queue;
    return;
  }
  const bool enough = queued_bytes_ < kGatheredBytes && queued_bytes_ + bytes >= kGatheredBytes;
  queued_bytes_ += bytes;
  queue_.push_back(std::move(record));
  if (queue_.size() == 1 || enough) wake_.notify_one();
}

RoutingLog::Stats RoutingLog::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void RoutingLog::Run() {
  NameThread("routing-log");
  YieldToShards(kNice);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    wake_.wait_for(lock, kGather, [this] { return closed_ || queued_bytes_ >= kGatheredBytes; });
    const std::vector<Record> records = std::exchange(queue_, {});
    const config::RoutingLog config = config_;
    lock.unlock();
    Write(records, config);
    lock.lock();
    // Records that are being written still count as queued.
    queued_bytes_ = 0;
    for (const Record& record : queue_) queued_bytes_ += BytesOf(record);
  }
}

void RoutingLog::Write(const std::vector<Record>& records, const config::RoutingLog& config) {
  uint64_t written = 0;
  uint64_t lines = 0;
  std::string piece;
  for (const Record& record : records) {
    AppendLine(piece, record);
    ++lines;
    if (piece.size() < kPieceBytes && &record != &records.back()) continue;
    const absl::Status status = files_.Append(piece, config.file_bytes, config.files);
    if (status.ok()) written += lines;
    piece.clear();
    lines = 0;
    if (status.ok() == !failing_) continue;
    failing_ = !status.ok();
    if (failing_) {
      log::Error("the routing log cannot be written: its records are dropped",
                 {{"why", conf::Std(status.message())}});
    } else {
      log::Info("the routing log is written again");
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.written += written;
  stats_.dropped_write += records.size() - written;
}

}  // namespace gateway::routing
