#include "gateway/audit/sink_source.h"

#include <utility>

#include "conf/hex.h"
#include "gateway/ledger/chain.h"

namespace gateway {
namespace {

constexpr size_t kReadBytes = 4u << 20;

}  // namespace

absl::StatusOr<std::vector<plugins::sinks::Record>> SinkSource::Read(uint64_t after, size_t max) {
  // A new tail reads its segment from the front; an existing one continues.
  if (!tail_ || tail_->after_seq() != after) tail_.emplace(dir_, after);
  const uint64_t durable = durable_seq_();
  std::vector<plugins::sinks::Record> records;
  size_t bytes = 0;
  while (records.size() < max && bytes < kReadBytes) {
    absl::StatusOr<ledger::Tail::Batch> batch =
        tail_->Read(max - records.size(), kReadBytes - bytes, durable);
    if (!batch.ok() && records.empty()) return batch.status();
    if (!batch.ok() || batch->lines.empty()) break;
    for (ledger::Tail::Line& line : batch->lines) {
      bytes += line.text.size();
      records.push_back(
          {line.seq, conf::FromUnixMicros(line.time_us), std::move(line.text), conf::Hex(line.link)});
    }
  }
  return records;
}

absl::StatusOr<std::string> SinkSource::Link(uint64_t seq) const {
  if (seq == 0) return std::string();
  ledger::Tail tail(dir_, seq - 1);
  const absl::StatusOr<const ledger::Tail::Entry*> found = tail.Peek();
  if (absl::IsDataLoss(found.status())) return std::string();
  if (!found.ok()) return found.status();
  if (*found == nullptr || (*found)->parts.seq != seq) return std::string();
  return conf::Hex((*found)->parts.link);
}

}  // namespace gateway
