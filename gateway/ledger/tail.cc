#include "gateway/ledger/tail.h"

#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/ledger/chain.h"

namespace gateway::ledger {

absl::StatusOr<bool> Tail::Seek() {
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir_);
  if (!segments.ok()) return segments.status();
  const SegmentName* found = nullptr;
  for (const SegmentName& segment : *segments) {
    if (found == nullptr || segment.first_seq <= after_ + 1) found = &segment;
  }
  if (found == nullptr || (reader_ && reader_->path() == found->path)) return false;
  absl::StatusOr<LineReader> reader = LineReader::Open(found->path);
  if (absl::IsNotFound(reader.status())) return false;  // removed meanwhile; the next call finds another
  if (!reader.ok()) return reader.status();
  reader_ = *std::move(reader);
  return true;
}

absl::StatusOr<Tail::Batch> Tail::Read(size_t max_records, size_t max_bytes, uint64_t up_to) {
  Batch batch;
  size_t bytes = 0;
  while (batch.lines.size() < max_records && bytes < max_bytes) {
    if (!held_) {
      absl::StatusOr<bool> read = Hold();
      if (!read.ok()) return read.status();
      if (!*read) break;
    }
    if (held_->seq > up_to) break;
    if (const uint64_t missed = held_->seq - after_ - 1; missed > 0) {
      if (!batch.lines.empty()) break;
      batch.missed = missed;
    }
    after_ = held_->seq;
    bytes += held_->text.size();
    batch.lines.push_back(*std::move(held_));
    held_.reset();
  }
  return batch;
}

absl::StatusOr<bool> Tail::Hold() {
  while (true) {
    std::optional<std::string_view> line;
    if (reader_) {
      absl::StatusOr<std::optional<std::string_view>> next = reader_->Next();
      if (!next.ok()) return next.status();
      line = *next;
    }
    if (!line) {
      absl::StatusOr<bool> moved = Seek();
      if (!moved.ok() || !*moved) return moved;
      continue;
    }
    const std::optional<LineParts> parts = SplitLine(*line);
    if (!parts) {
      return absl::DataLossError(conf::Abseil(
          fmt::format("{}: the line that ends at byte {} is no record", reader_->path(), reader_->offset())));
    }
    if (parts->seq <= after_) continue;
    held_ = Line{parts->seq, std::string(*line)};
    return true;
  }
}

}  // namespace gateway::ledger
