// EndDeadline: the last resort of an orderly end. When the process has not ended by then, whatever it waits
// for, this says so in the log and ends it. Nothing is lost by that: the next start replays the journals.
//
// Thread-safe; a thread of its own, from Begin() on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "conf/time.h"

namespace gateway {

class EndDeadline {
 public:
  EndDeadline() = default;
  ~EndDeadline();  // in time
  EndDeadline(const EndDeadline&) = delete;
  EndDeadline& operator=(const EndDeadline&) = delete;

  void Begin(conf::Duration patience);
  // What the process waits for from now on: a text that outlives this.
  void WaitsFor(const char* what) { what_.store(what, std::memory_order_relaxed); }

 private:
  void Run(conf::Duration patience);

  std::atomic<const char*> what_{"requests"};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace gateway
