// Reconcile: compares the usage in the gateway's ledger with the usage that the clients received.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "bench/replay/report.h"

namespace bench {

// By model, from the close records in the segments of a ledger's directory (state_dir/ledger).
absl::StatusOr<TokensByModel> ReadLedger(const std::string& dir);

// By model, from what a command such as `tidegate usage --by model --json -c tidegate.yaml` prints.
absl::StatusOr<TokensByModel> RunUsage(const std::string& command);

// What was added between two readings. Models without tokens are left out.
TokensByModel Difference(const TokensByModel& before, const TokensByModel& after);

// A table of both, with the differences. Calls are not compared: the ledger has those too that were refused.
std::string Compare(const TokensByModel& client, const TokensByModel& gateway, bool& equal);

}  // namespace bench
