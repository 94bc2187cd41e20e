// FileSink: appends lines to a file and syncs it to disk.
//
// Rotates by size: `audit.jsonl` becomes `audit.jsonl.SEQ`, where SEQ (20 digits) is the last sequence number
// before the rotation, so names sort by time. Follows a file that someone else renames or removes. A torn
// last line, left by a crash, is cut off: its record was not delivered and comes again. Work is done off the
// loop.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "gateway/net/loop.h"
#include "plugins/sinks/sink.h"

namespace plugins::sinks {

class FileSink final : public Sink {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 256u << 20;  // then it is rotated
    uint32_t keep = 0;                // rotated files; the oldest go. 0: all
    mode_t mode = 0640;
  };

  FileSink(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~FileSink() override;

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
  void CloseFile();
  absl::Status SyncFolder() const;
  absl::Status Error(const char* what) const;

  gateway::net::Loop& loop_;
  const Options options_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace plugins::sinks
