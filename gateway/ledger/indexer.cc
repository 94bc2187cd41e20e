#include "gateway/ledger/indexer.h"

#include <memory>
#include <utility>

#include "conf/text.h"
#include "gateway/ledger/index.h"
#include "gateway/thread.h"

namespace gateway::ledger {
namespace {

constexpr size_t kUpdateRecords = 65'536;
constexpr int kIndexerNice = 10;

}  // namespace

Indexer::Indexer(std::string ledger_dir, conf::Duration interval)
    : dir_(std::move(ledger_dir)), interval_(interval), thread_([this] { Run(); }) {}

Indexer::~Indexer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

std::string Indexer::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

// True: time to stop.
bool Indexer::Pause() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, interval_, [this] { return stopping_; });
  return stopping_;
}

void Indexer::Run() {
  NameThread("index");
  YieldToShards(kIndexerNice);
  std::unique_ptr<Index> index;
  while (true) {
    absl::Status status;
    size_t applied = 0;
    if (!index) {
      absl::StatusOr<std::unique_ptr<Index>> opened = Index::Open(dir_);
      status = opened.status();
      if (opened.ok()) {
        index = *std::move(opened);
        index->KeepRoom();
      }
    }
    if (index) {
      absl::StatusOr<size_t> updated = index->Update(kUpdateRecords);
      if (updated.ok()) applied = *updated;
      status = updated.status();
      if (updated.ok()) applied_seq_.store(index->applied_seq(), std::memory_order_relaxed);
    }
    if (!status.ok()) index.reset();  // it is opened again, and rebuilt if it is damaged
    bool stop;
    {
      const std::lock_guard lock(mutex_);
      last_error_ = std::string(conf::Std(status.message()));
      stop = stopping_;
    }
    if (stop || (applied == 0 && Pause())) return;
  }
}

}  // namespace gateway::ledger
