// Follows the records of a ledger in order: for `audit tail`, the sinks, the index and the export. Reads
// only, beside a running gateway, in any process. One per thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/segment.h"

namespace gateway::ledger {

class Tail {
 public:
  struct Line {
    uint64_t seq = 0;
    int64_t time_us = 0;
    std::string text;  // as on disk, without the newline; RecordParser takes it
  };
  struct Entry {
    uint64_t segment = 0;   // the first sequence number of the one that holds it
    std::string_view text;  // as on disk, without the newline
    LineParts parts;        // views into it
  };
  struct Batch {
    std::vector<Line> lines;
    // Records between the last one given and lines[0] that retention has removed, or that are damaged so that
    // they do not parse: those never stand in anybody's way.
    uint64_t missed = 0;
  };

  // The next record will be the first after `after_seq`.
  Tail(std::string dir, uint64_t after_seq) : dir_(std::move(dir)), after_(after_seq) {}

  // Up to `max_records` and about `max_bytes`; none when there are no more yet. With `up_to` a consumer that
  // must not see what a power loss could still undo stays behind Stats::durable_seq.
  absl::StatusOr<Batch> Read(size_t max_records, size_t max_bytes,
                             uint64_t up_to = std::numeric_limits<uint64_t>::max());

  // The next record where it stands in the buffer, without going past it; null when there is none yet. Its
  // parts are sound, the rest is not looked at. Valid until the next call of any other function.
  absl::StatusOr<const Entry*> Peek();
  // Goes past what Peek() showed.
  void Pop();

  uint64_t after_seq() const { return after_; }

 private:
  // Opens the segment that holds the record after `after_`; false when there is none yet.
  absl::StatusOr<bool> Seek();

  std::string dir_;
  uint64_t after_;
  std::optional<LineReader> reader_;
  uint64_t segment_ = 0;       // that the reader reads
  std::optional<Entry> held_;  // read, but not yet given
  std::unique_ptr<RecordParser> parser_;
};

}  // namespace gateway::ledger
