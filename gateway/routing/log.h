// RoutingLog: sampled decisions, on their way into files, off the request path: a shard hands one over with a
// short lock and never waits; rendering and writing are a thread's of its own. What waits is bounded in
// bytes; what does not fit, or cannot be written, is dropped and counted.
//
// Owner: the process; destroyed when no shard can call it any more. Add() and stats(): any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/config/routing.h"
#include "gateway/routing/files.h"
#include "gateway/routing/record.h"

namespace gateway::routing {

class RoutingLog {
 public:
  static constexpr size_t kMaxQueuedBytes = size_t{8} << 20;

  struct Stats {
    uint64_t written = 0;
    uint64_t dropped_queue = 0;  // there was no room
    uint64_t dropped_write = 0;  // the disk did not take them
  };

  explicit RoutingLog(std::string state_dir);
  // What waits is written first.
  ~RoutingLog();
  RoutingLog(const RoutingLog&) = delete;
  RoutingLog& operator=(const RoutingLog&) = delete;

  void Configure(const config::RoutingLog& config);
  void Add(Record record);
  Stats stats() const;

 private:
  void Run();
  void Write(const std::vector<Record>& records, const config::RoutingLog& config);

  LogFiles files_;
  bool failing_ = false;  // the thread's

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  config::RoutingLog config_;
  std::vector<Record> queue_;
  size_t queued_bytes_ = 0;
  Stats stats_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace gateway::routing
