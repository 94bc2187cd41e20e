#include "gateway/sink_source.h"

#include <algorithm>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"

namespace gateway {
namespace {

constexpr size_t kReadBytes = 4u << 20;

}  // namespace

absl::StatusOr<std::vector<plugins::sinks::Record>> SinkSource::Read(uint64_t after, size_t max) {
  if (!tail_ || given_ != after) tail_ = std::make_unique<ledger::Tail>(dir_, after);
  given_ = after;
  const uint64_t durable = durable_seq_();
  std::vector<plugins::sinks::Record> records;
  size_t bytes = 0;
  while (records.size() < max && bytes < kReadBytes) {
    const absl::StatusOr<const ledger::Tail::Entry*> next = tail_->Peek();
    if (!next.ok()) {
      // Lines that cannot be told apart: nothing more of this segment can be had.
      const absl::StatusOr<bool> left = absl::IsDataLoss(next.status()) ? LeaveSegment() : false;
      if (left.ok() && *left) continue;
      if (!records.empty()) break;
      return left.ok() ? next.status() : left.status();
    }
    if (*next == nullptr || (*next)->parts.seq > durable) break;
    const ledger::Tail::Entry& entry = **next;
    if (parser_.Parse(entry.text, &parsed_).ok()) {
      bytes += entry.text.size();
      records.push_back({entry.parts.seq, conf::FromUnixMicros(entry.parts.time_us), std::string(entry.text),
                         ledger::Hex(entry.parts.link)});
    }
    tail_->Pop();
  }
  if (!records.empty()) given_ = records.back().seq;
  return records;
}

absl::StatusOr<bool> SinkSource::LeaveSegment() {
  const auto segments = ledger::ListSegments(dir_);
  if (!segments.ok()) return segments.status();
  const auto next = std::find_if(segments->begin(), segments->end(), [&](const ledger::SegmentName& segment) {
    return segment.first_seq > tail_->after_seq() + 1;
  });
  if (next == segments->end()) return false;
  tail_ = std::make_unique<ledger::Tail>(dir_, next->first_seq - 1);
  return true;
}

absl::StatusOr<std::string> SinkSource::Link(uint64_t seq) const {
  if (seq == 0) return std::string();
  ledger::Tail tail(dir_, seq - 1);
  const absl::StatusOr<const ledger::Tail::Entry*> found = tail.Peek();
  if (absl::IsDataLoss(found.status())) return std::string();
  if (!found.ok()) return found.status();
  if (*found == nullptr || (*found)->parts.seq != seq) return std::string();
  return ledger::Hex((*found)->parts.link);
}

}  // namespace gateway
