// Restores budgets: reads what was spent in the current periods from the ledger when the process starts, and when a
// reload adds a budget.
#pragma once

#include <absl/status/status.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/ledger.h"
#include "plugins/auth/key_table.h"
#include "router/limits/tree.h"

namespace gateway {

// The budgets of the tree whose LimitRef::Id() is not among `known`.
std::vector<router::limits::LimitRef> BudgetsBeside(const router::limits::LimitTree& limits,
                                                    const std::set<std::string>& known);

// The ids of all current budgets, for BudgetsBeside.
std::set<std::string> BudgetIds(const router::limits::LimitTree& limits);

// Charges `budgets` with the use of the ledger's closed requests since their periods began; the budget of a key also
// with the use of the keys that it replaces. Keeps what is charged meanwhile: a request that is settled at this moment
// may count twice, but none is lost. May be repeated after a failure.
//
// Blocks: it waits for the records of the shards, and updates the ledger's index, or rebuilds it if it is missing. Not
// for a loop's thread.
absl::Status RestoreBudgets(std::span<const router::limits::LimitRef> budgets, ledger::Ledger& ledger,
                            const std::string& ledger_dir, const plugins::auth::KeyTable& keys,
                            conf::TimePoint now);

}  // namespace gateway
