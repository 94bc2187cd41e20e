// One export of the ledgers of several gateways: their records in the order of time, each as it stands in its
// ledger, and at the end what proves each ledger: its last signed checkpoint.
//
//   {"ledger":"/backup/a/ledger","record":{…}}
//   …
//   {"ledger":"/backup/a/ledger","records":4711,"last_seq":5000,"checkpoint":{…}}
//
// Ledgers stay one chain each: a record's line has its number and its link of the chain, and the checkpoint signs the
// link before it. Times are the gateways' own, so
// records of two gateways are in order as far as their clocks agree; those of one ledger always are.
//
// Reads only, beside running gateways. Blocks.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/export.h"

namespace gateway {

// Of `wanted`, the number of the first record counts for each ledger, and content stays as the options say. Writes
// whole lines to `out`; when that returns false, it stops without an error. Returns the number of records.
absl::StatusOr<uint64_t> ExportMerged(const std::vector<std::string>& ledgers,
                                      const ledger::ExportOptions& wanted,
                                      const std::function<bool(std::string_view)>& out);

}  // namespace gateway
