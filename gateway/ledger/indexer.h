// Keeps the index close to the end of the ledger while the gateway runs. Owns a thread with low priority, which
// reads the segments like any other reader. After a failure it opens the index again at the next interval.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "conf/time.h"

namespace gateway::ledger {

class Indexer {
 public:
  Indexer(std::string ledger_dir, conf::Duration interval);
  ~Indexer();
  Indexer(const Indexer&) = delete;
  Indexer& operator=(const Indexer&) = delete;

  uint64_t applied_seq() const { return applied_seq_.load(std::memory_order_relaxed); }
  std::string last_error() const;

 private:
  void Run();
  bool Pause();

  const std::string dir_;
  const conf::Duration interval_;
  std::atomic<uint64_t> applied_seq_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string last_error_;
  std::thread thread_;
};

}  // namespace gateway::ledger
