// RoutingLog: writes sampled routing decisions to files, outside the request path. A shard adds a record under a short
// lock and never waits; the log's thread renders and writes. The queue is bounded in bytes; a record that does not
// fit, or cannot be written, is dropped and counted.
//
// Owner: the process, which destroys it after the shards. Any thread may call Add() and stats().
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
    uint64_t dropped_queue = 0;  // the queue was full
    uint64_t dropped_write = 0;  // the disk refused the write
  };

  explicit RoutingLog(std::string state_dir);
  // Writes the queued records first.
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
  bool failing_ = false;  // only for the log's thread

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  config::RoutingLog config_;
  std::vector<Record> queue_;
  size_t queued_bytes_ = 0;
  Stats stats_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace gateway::routing
