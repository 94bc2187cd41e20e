#include "gateway/routing/log.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/thread.h"

namespace gateway::routing {
namespace {

constexpr int kNice = 10;

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
  queued_bytes_ += bytes;
  queue_.push_back(std::move(record));
  if (queue_.size() == 1) wake_.notify_one();
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
    const std::vector<Record> records = std::exchange(queue_, {});
    const config::RoutingLog config = config_;
    lock.unlock();
    Write(records, config);
    lock.lock();
    // Room for others only when these are out: what is being written counts too.
    queued_bytes_ = 0;
    for (const Record& record : queue_) queued_bytes_ += BytesOf(record);
  }
}

void RoutingLog::Write(const std::vector<Record>& records, const config::RoutingLog& config) {
  uint64_t written = 0;
  for (const Record& record : records) {
    using nlohmann::ordered_json;
    const std::string line = ToJson(record).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    const absl::Status status = files_.Append(line + "\n", config.file_bytes, config.files);
    written += status.ok();
    if (status.ok() == !failing_) continue;
    failing_ = !status.ok();
    if (failing_) {
      log::Error("routing log cannot be written; decisions are dropped",
                 {{"why", conf::Std(status.message())}});
    } else {
      log::Info("routing log is written again");
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.written += written;
  stats_.dropped_write += records.size() - written;
}

}  // namespace gateway::routing
