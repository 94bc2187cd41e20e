// Budgets survive restarts: what was spent in the present periods is read back from the ledger at start.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "conf/time.h"
#include "router/limits/tree.h"

namespace gateway {

// Charges every budget of the tree with what the ledger's closed requests have used since its period began.
// Blocks: the ledger's index is brought up to date first, and rebuilt where it is missing.
absl::Status RestoreBudgets(router::limits::LimitTree& limits, const std::string& ledger_dir,
                            conf::TimePoint now);

}  // namespace gateway
