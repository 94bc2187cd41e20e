// Follows the records of a ledger in order, for `audit tail`, the sinks, the index and the export. Only reads; may run
// beside a gateway, in any process. One per thread.
//
// Damage does not stop it: it skips a line that is not a record, and the rest of a segment without another newline
// once the next segment exists. `audit verify` reports such damage.
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
    std::string text;  // as on disk, without the newline; for RecordParser
  };
  struct Entry {
    uint64_t segment = 0;   // the first sequence number of its segment
    uint64_t offset = 0;    // of the line in its segment, bytes
    std::string_view text;  // as on disk, without the newline
    LineParts parts;        // views into it
  };
  struct Batch {
    std::vector<Line> lines;
    // The number of missing records before lines[0]: removed by retention, or too damaged to parse.
    uint64_t missed = 0;
  };

  // Continues with the first record after `after_seq`.
  Tail(std::string dir, uint64_t after_seq) : dir_(std::move(dir)), after_(after_seq) {}

  // Reads up to `max_records` and about `max_bytes`; none if there are no more yet. A consumer that must not see
  // records which a power failure could still undo passes Stats::durable_seq as `up_to`.
  absl::StatusOr<Batch> Read(size_t max_records, size_t max_bytes,
                             uint64_t up_to = std::numeric_limits<uint64_t>::max());

  // The next record, in the buffer, without moving past it; null if there is none yet. Checks only its parts. Valid
  // until the next call of any other function.
  absl::StatusOr<const Entry*> Peek();
  // Moves past the record that Peek() returned.
  void Pop();

  uint64_t after_seq() const { return after_; }

 private:
  // The next line of the segment being read, or of a later one; none if there is none yet.
  absl::StatusOr<std::optional<std::string_view>> NextLine();
  // The segment after the one being read; at the start, the one with the record after `after_`.
  absl::StatusOr<std::optional<SegmentName>> NextSegment() const;

  std::string dir_;
  uint64_t after_;
  std::optional<LineReader> reader_;
  uint64_t segment_ = 0;       // the one that the reader reads
  bool last_look_ = false;     // another segment follows, so this one no longer grows
  absl::Status lost_;          // not OK: the rest of this segment cannot be split into lines
  std::optional<Entry> held_;  // read, but not yet given
  std::unique_ptr<RecordParser> parser_;
};

// The first remaining record of a ledger; none if retention has removed nothing.
struct FirstRecord {
  uint64_t seq = 0;
  int64_t time_us = 0;
};
std::optional<FirstRecord> FirstLeft(const std::string& dir);

}  // namespace gateway::ledger
