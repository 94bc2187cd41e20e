// A question to the ledger as people put it, checked, and usage as data: for `tidegate usage`, `tidegate
// audit` and the admin API.
//
// Pure; any thread. The asking itself is ledger::QueryUsage and ledger::Export.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/api/field_problem.h"
#include "gateway/audit/shown_usage.h"
#include "gateway/config/config.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/index.h"

namespace gateway {

struct UsageRequest {
  std::vector<std::string> by;  // tenant, key, model, replica, api, reason, hour, day, job
  std::string since;            // "7d" ago, or a time; empty: from the beginning
  std::string until;            // likewise, not included; empty: now
  std::string tenant;           // name or path, with everything below it; empty: all
  std::string model;
};

std::vector<FieldProblem> CheckUsageRequest(const UsageRequest& request, const Config& config,
                                            conf::TimePoint now, ledger::UsageQuery& query);

struct AuditRequest {
  std::string since;  // as in UsageRequest
  std::string until;
  std::string tenant;
  std::string model;
  std::vector<std::string> kinds;  // open, close, config, key, …; none: all
};

std::vector<FieldProblem> CheckAuditRequest(const AuditRequest& request, const Config& config,
                                            conf::TimePoint now, ledger::ExportOptions& options);

// A moment before `now` given as how long ago, or a time.
std::optional<conf::TimePoint> ParseMoment(std::string_view text, conf::TimePoint now);

// "a,b" as a list; empty parts are left out.
std::vector<std::string> SplitList(std::string_view text);

// The kinds of devices that were held.
std::set<std::string> DeviceKindsIn(const std::vector<ledger::UsageRow>& rows);

// Whether any row has energy, its cost, and its emissions: columns that stand in a table only then.
struct EnergyColumns {
  bool energy = false;
  bool cost = false;
  bool co2 = false;
};
EnergyColumns EnergyIn(const std::vector<ledger::UsageRow>& rows);
inline constexpr double kMillijoulesPerKwh = 3.6e9;
// Of CSV: kilowatt-hours, dollars, grams.
std::string EnergyNames(const EnergyColumns& columns);
std::string EnergyCells(const EnergyColumns& columns, const ledger::UsageRow& row);

std::vector<ShownUsage> ShowUsage(const ledger::UsageQuery& query, const std::vector<ledger::UsageRow>& rows);
// The same as RFC 4180, names first; a column of device-seconds for each kind that occurs.
std::string UsageCsv(const ledger::UsageQuery& query, const std::vector<ledger::UsageRow>& rows);

}  // namespace gateway
