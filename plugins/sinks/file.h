// FileSink: appends lines to a file and syncs it to disk.
//
// Rotates by size: `audit.jsonl` becomes `audit.jsonl.SEQ`, where SEQ (20 digits) is the last sequence number
// before the rotation, so names sort by time. When another program renames or removes the file, the sink begins
// a new one. A torn last line, left by a crash, is cut off: its record was not delivered and comes again. The
// work is done off the loop.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "gateway/net/fd.h"
#include "gateway/net/loop.h"
#include "plugins/sinks/sink.h"

namespace plugins::sinks {

class FileSink final : public Sink {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 256u << 20;  // then it is rotated
    uint32_t keep = 0;                // the newest rotated files are kept; 0: all
    mode_t mode = 0640;
  };

  FileSink(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  std::string Describe() const override { return "file " + options_.path; }
  BatchLimits limits() const override { return {5000, 4u << 20}; }
  gateway::net::Task<absl::Status> Deliver(std::span<const Record> batch, conf::TimePoint until) override;

 private:
  absl::Status Append(std::span<const Record> batch);
  absl::Status Open();
  absl::Status CutTornLine();
  absl::Status Rotate(uint64_t last_seq);
  void RemoveOldest() const;
  bool Moved() const;
  absl::Status Error(const char* action) const;

  gateway::net::Loop& loop_;
  const Options options_;
  gateway::net::Fd file_;
  uint64_t size_ = 0;
};

}  // namespace plugins::sinks
