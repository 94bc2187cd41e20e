#include "gateway/process/end_deadline.h"

#include <unistd.h>

#include "gateway/log.h"
#include "gateway/thread.h"

namespace gateway {
namespace {

constexpr int kEndedByDeadline = 1;

}  // namespace

EndDeadline::~EndDeadline() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EndDeadline::Begin(conf::Duration patience) {
  if (!thread_.joinable()) thread_ = std::thread([this, patience] { Run(patience); });
}

void EndDeadline::Run(conf::Duration patience) {
  NameThread("end");
  {
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, patience, [this] { return ended_; })) return;
  }
  log::Error(
      "the gateway did not end in time and is killed; the next start recovers its records",
      {{"waited_for", what_.load(std::memory_order_relaxed)}, {"patience", conf::FormatDuration(patience)}});
  log::Flush();
  _exit(kEndedByDeadline);
}

}  // namespace gateway
