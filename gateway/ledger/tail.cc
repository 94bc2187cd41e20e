#include "gateway/ledger/tail.h"

#include <utility>

namespace gateway::ledger {

absl::StatusOr<std::optional<SegmentName>> Tail::NextSegment() const {
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir_);
  if (!segments.ok()) return segments.status();
  std::optional<SegmentName> found;
  for (SegmentName& segment : *segments) {
    if (reader_ && segment.first_seq <= segment_) continue;
    if (found && (reader_ || segment.first_seq > after_ + 1)) break;
    found = std::move(segment);
  }
  return found;
}

absl::StatusOr<std::optional<std::string_view>> Tail::NextLine() {
  std::optional<uint64_t> removed;
  while (true) {
    if (reader_ && lost_.ok()) {
      absl::StatusOr<std::optional<std::string_view>> line = reader_->Next();
      if (absl::IsDataLoss(line.status())) {
        lost_ = line.status();
      } else if (!line.ok() || *line) {
        return line;
      }
    }
    absl::StatusOr<std::optional<SegmentName>> next = NextSegment();
    if (!next.ok()) return next.status();
    if (!*next) {
      if (!lost_.ok()) return lost_;
      return std::nullopt;
    }
    // Lines may have been appended to the segment just before the next one began.
    if (reader_ && lost_.ok() && !std::exchange(last_look_, true)) continue;
    absl::StatusOr<LineReader> reader = LineReader::Open((*next)->path);
    if (absl::IsNotFound(reader.status()) && std::exchange(removed, (*next)->first_seq) != (*next)->first_seq)
      continue;  // retention removed it after it was listed
    if (!reader.ok()) return reader.status();
    reader_ = *std::move(reader);
    segment_ = (*next)->first_seq;
    last_look_ = false;
    lost_ = absl::OkStatus();
  }
}

absl::StatusOr<Tail::Batch> Tail::Read(size_t max_records, size_t max_bytes, uint64_t up_to) {
  if (!parser_) parser_ = std::make_unique<RecordParser>();
  Batch batch;
  Record record;
  size_t bytes = 0;
  while (batch.lines.size() < max_records && bytes < max_bytes) {
    absl::StatusOr<const Entry*> next = Peek();
    if (!next.ok() && batch.lines.empty()) return next.status();
    if (!next.ok() || *next == nullptr || (*next)->parts.seq > up_to) break;
    if (!parser_->Parse((*next)->text, &record).ok()) {
      held_.reset();  // its gap is reported with the next valid record
      continue;
    }
    const uint64_t seq = (*next)->parts.seq;
    if (const uint64_t missed = seq - after_ - 1; missed > 0) {
      if (!batch.lines.empty()) break;
      batch.missed = missed;
    }
    bytes += (*next)->text.size();
    batch.lines.push_back({seq, record.time_us, (*next)->parts.link, std::string((*next)->text)});
    Pop();
  }
  return batch;
}

absl::StatusOr<const Tail::Entry*> Tail::Peek() {
  while (!held_) {
    absl::StatusOr<std::optional<std::string_view>> line = NextLine();
    if (!line.ok()) return line.status();
    if (!*line) return nullptr;
    const std::optional<LineParts> parts = SplitLine(**line);
    if (parts && parts->seq > after_)
      held_ = {segment_, reader_->offset() - (*line)->size() - 1, **line, *parts};
  }
  return &*held_;
}

void Tail::Pop() {
  after_ = held_->parts.seq;
  held_.reset();
}

std::optional<FirstRecord> FirstLeft(const std::string& dir) {
  const absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  if (!segments.ok() || segments->empty() || segments->front().first_seq <= 1) return std::nullopt;
  absl::StatusOr<LineReader> reader = LineReader::Open(segments->front().path);
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<std::optional<std::string_view>> first = reader->Next();
  if (!first.ok() || !*first) return std::nullopt;
  const std::optional<LineParts> parts = SplitLine(**first);
  if (!parts) return std::nullopt;
  return FirstRecord{.seq = parts->seq, .time_us = parts->time_us};
}

}  // namespace gateway::ledger
