// Usage as FOCUS 1.2 (FinOps Open Cost and Usage Specification, focus.finops.org): a CSV with all 57 columns of the
// specification under their column ids, in alphabetical order, as there. Null is an empty cell. Pure.
//
// A row is the use of one key and model, or job, in one hour, by one meter: a row has one unit and one unit price. So
// uncached input, cached input and output tokens are rows of their own, and so is device time, of each kind of device.
// The unit prices are those of the price list, if they give the cost in the ledger; the ledger has costs, no prices. If
// they don't (a price changed, or something else than tokens is priced), the row is of all tokens, or of requests, and
// its unit prices are null. Device time has no price and costs 0.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gateway/config/config.h"
#include "gateway/ledger/index.h"

namespace gateway {

// What the rows must be grouped by, in this order.
std::vector<ledger::UsageBy> FocusGroups();

// The prices of each model: first the usual ones, then those of lines of batches.
using PriceList = std::map<std::string, std::vector<config::Price>, std::less<>>;
PriceList PricesOf(const Config& config);

std::string FocusCsv(const std::vector<ledger::UsageRow>& rows, const PriceList& prices);

}  // namespace gateway
