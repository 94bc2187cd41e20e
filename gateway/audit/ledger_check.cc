#include "gateway/audit/ledger_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/thread.h"

namespace gateway {
namespace {

constexpr uint64_t kBytesPerSecond = 64 << 20;

}  // namespace

bool LedgerCheck::Start(const std::string& by, conf::TimePoint now) {
  std::unique_lock lock(mutex_);
  if (stopping_ || status_.state == "running") return false;
  std::thread before = std::move(thread_);  // has ended
  status_ = {.state = "running", .by = by, .began = now};
  paced_bytes_ = 0;
  thread_ = std::thread([this] { Run(); });
  lock.unlock();
  if (before.joinable()) before.join();
  return true;
}

LedgerCheck::Status LedgerCheck::Get() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool LedgerCheck::Stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void LedgerCheck::Stop() {
  std::thread running;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    running = std::move(thread_);
  }
  wake_.notify_all();
  if (running.joinable()) running.join();
}

void LedgerCheck::Note(uint64_t done, uint64_t total) {
  std::unique_lock lock(mutex_);
  status_.done_bytes = done;
  status_.total_bytes = total;
  const uint64_t fresh = done - std::min(done, std::exchange(paced_bytes_, done));
  const auto pause = std::chrono::microseconds(fresh * 1'000'000 / kBytesPerSecond);
  wake_.wait_for(lock, pause, [this] { return stopping_; });
}

void LedgerCheck::Run() {
  NameThread("ledger check");
  YieldToShards(10);
  const absl::StatusOr<ledger::PublicKey> key = ledger::PublicKey::Load(dir_ + "/signing.pub");
  absl::StatusOr<ledger::VerifyReport> report = ledger::VerifyReport();
  if (!key.ok()) {
    report = key.status();
  } else {
    report = ledger::Verify(dir_, *key,
                            {.kept = {},
                             .progress = [this](uint64_t done, uint64_t total) { Note(done, total); },
                             .stop = [this] { return Stopping(); }});
  }
  const std::lock_guard lock(mutex_);
  status_.ended = net::Now();
  if (absl::IsCancelled(report.status())) {
    status_.state = "stopped";
  } else if (!report.ok()) {
    status_.state = "failed";
    status_.why = std::string(conf::Std(report.status().message()));
    log::Warn("the ledger could not be verified", {{"why", status_.why}});
  } else {
    status_.state = report->ok() ? "good" : "bad";
    if (report->first_bad)
      log::Error("the ledger is damaged or was changed",
                 {{"segment", report->first_bad->segment}, {"why", report->first_bad->why}});
    status_.report = *std::move(report);
  }
}

}  // namespace gateway
