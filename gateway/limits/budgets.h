// Budgets outlive what counts them: what was spent in the present periods is read back from the ledger when
// the process starts, and when a reload adds a budget.
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

// The names that BudgetsBeside takes, of all the budgets that there are now.
std::set<std::string> BudgetIds(const router::limits::LimitTree& limits);

// Charges `budgets` with what the ledger's closed requests have used since their periods began, a key's with
// what the keys used that it replaces, and keeps what is charged meanwhile: a request that is settled in the
// very moment may count twice, none is lost. Safe to repeat after a failure.
//
// Blocks: it waits for what the shards have recorded, and the ledger's index is brought up to date, or
// rebuilt where it is missing. Not for a loop's thread.
absl::Status RestoreBudgets(std::span<const router::limits::LimitRef> budgets, ledger::Ledger& ledger,
                            const std::string& ledger_dir, const plugins::auth::KeyTable& keys,
                            conf::TimePoint now);

}  // namespace gateway
