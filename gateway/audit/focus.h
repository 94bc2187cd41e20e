// Usage as FOCUS 1.2 (FinOps Open Cost and Usage Specification, focus.finops.org): a CSV with all 57 columns of the
// specification under their column ids, in alphabetical order, as there. Null is an empty cell. Pure.
//
// A row is the use of one key and model, or job, in one hour; its tokens and its device time, of each kind of device,
// are rows of their own, since a row has one unit. The gateway prices tokens; device time has no price and costs 0.
// Input and output tokens have prices of their own, so that no unit price would be true: the unit prices are null.
#pragma once

#include <string>
#include <vector>

#include "gateway/ledger/index.h"

namespace gateway {

// What the rows must be grouped by, in this order.
std::vector<ledger::UsageBy> FocusGroups();

std::string FocusCsv(const std::vector<ledger::UsageRow>& rows);

}  // namespace gateway
