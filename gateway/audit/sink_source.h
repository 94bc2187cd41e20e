// SinkSource: what a sink is given of the ledger, read on from where it is. Records that are damaged are left
// out, as Tail does; who takes the rest sees by the numbers that they are missing.
//
// Owner: the delivery's source. Thread: any but a loop's, since it waits for the disk; one at a time.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gateway/ledger/tail.h"
#include "plugins/sinks/sink.h"

namespace gateway {

class SinkSource {
 public:
  // Records after `durable_seq`, which a power loss could undo, are not delivered yet.
  SinkSource(std::string ledger_dir, std::function<uint64_t()> durable_seq)
      : dir_(std::move(ledger_dir)), durable_seq_(std::move(durable_seq)) {}

  // At most `max` records after `after`, and some MiB of them. Only new records cost time, as long as each
  // call continues where the last one ended.
  absl::StatusOr<std::vector<plugins::sinks::Record>> Read(uint64_t after, size_t max);

  // The record's link in the hash chain, in hex; empty when the ledger does not have it, or has it damaged.
  absl::StatusOr<std::string> Link(uint64_t seq) const;

 private:
  const std::string dir_;
  const std::function<uint64_t()> durable_seq_;
  std::optional<ledger::Tail> tail_;
};

}  // namespace gateway
