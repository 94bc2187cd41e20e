// A statement: what a tenant and the tenants below it used in one month, made from the ledger alone, so that the
// same ledger gives the same bytes again. Whole numbers only, in a fixed order; no time of making.
//
// A month that is over is final. One that is not is "so far" and names its last record; where retention has removed
// records of the month, it is incomplete and says from which record on it counts.
//
// Where several gateways share a store, a statement is of all their ledgers, and names those that have figures of the
// month. It is final once each has told all of the month; any gateway then gives the same bytes. While one has not, it is
// so far and names those that are behind; one that is silent for kGoneForUsage leaves it incomplete.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/audit/all_usage.h"
#include "gateway/ledger/index.h"

namespace gateway {

struct StatementMonth {
  std::string name;  // 2027-01
  conf::TimePoint begin;
  conf::TimePoint end;  // not included
};
// Of "2027-01"; nothing for another text.
std::optional<StatementMonth> ParseMonth(std::string_view text);

struct Statement {
  std::string tenant;  // a path
  StatementMonth month;
  std::string_view state;                     // final, so_far, incomplete
  std::optional<uint64_t> up_to_record = {};  // of one that is so far
  std::optional<uint64_t> from_record = {};   // of an incomplete one
  // Of several gateways: their ledgers; those of which something may be missing; and, where it is not final, the time
  // of its oldest figures.
  std::optional<std::vector<std::string>> ledgers = {};
  std::vector<std::string> behind = {};
  std::optional<conf::TimePoint> as_of = {};
  std::vector<ledger::UsageRow> lines = {};  // by tenant, model and job, in this order
  ledger::UsageRow total = {};
};

// Reads the index of the ledger in `dir`; records that are not on disk yet are not in it. InvalidArgument: the month
// has not begun. Blocks.
absl::StatusOr<Statement> MakeStatement(const std::string& dir, const std::string& tenant,
                                        const StatementMonth& month, conf::TimePoint now,
                                        const std::optional<UsageOfOthers>& others = std::nullopt);

// Both end with a SHA-256 of all bytes before it: of the JSON, what stands before `,"digest"`; of the CSV, the rows
// before the row "digest".
std::string StatementJson(const Statement& statement);
std::string StatementCsv(const Statement& statement);

// Whether a statement's text has the digest that it ends with; nothing for a text without one.
std::optional<bool> HasItsDigest(std::string_view text);

}  // namespace gateway
