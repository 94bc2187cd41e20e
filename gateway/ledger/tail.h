// Follows the records of a ledger in order: for `audit tail`, the sinks, the index and the export. Reads
// only, beside a running gateway, in any process. One per thread.
//
// What is damaged stands in nobody's way: a line that is not one is passed over, and so is the rest of a
// segment in which no line ends, once there is a segment after it. `audit verify` judges it.
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
    Digest link{};     // of the hash chain
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
    // they do not parse.
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
  // Of the segment being read, or of those after it; nothing when there is none yet.
  absl::StatusOr<std::optional<std::string_view>> NextLine();
  // The one after the segment being read; at the start, the one that holds the record after `after_`.
  absl::StatusOr<std::optional<SegmentName>> NextSegment() const;

  std::string dir_;
  uint64_t after_;
  std::optional<LineReader> reader_;
  uint64_t segment_ = 0;       // that the reader reads
  bool last_look_ = false;     // another segment follows: what this one has now is all that it will have
  absl::Status lost_;          // not OK: no more lines can be told apart in it
  std::optional<Entry> held_;  // read, but not yet given
  std::unique_ptr<RecordParser> parser_;
};

}  // namespace gateway::ledger
