// The usage that a gateway reports to the others, through the store: the sums of each hour, those of feedback among
// them, and a mark that says how far they go. Objects of the kind store::kUsage:
//
//   SOURCE               the mark of one ledger
//   SOURCE/HOUR/PART     the sums of an hour (since 1970), in parts of at most about kPartBytes
//   SOURCE/HOUR/fPART    likewise, of feedback; gateways of earlier versions skip them
//
// An hour is always told whole, and again when it has changed, in one transaction: telling it twice counts nothing
// twice. A SOURCE is a ledger, not a gateway: one that was lost and started again is another source, and the
// reports of the former one stay.
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/index.h"

namespace gateway {

inline constexpr size_t kPartBytes = 24 << 10;
// Of an hour. Where there are more, replicas become one row, and then keys; of feedback then also texts, and names.
inline constexpr size_t kMostUsageCells = 20'000;
inline constexpr char kOtherUsage[] = "(other)";

struct UsageMark {
  std::string source{};
  std::string gateway{};   // its name
  uint64_t seq = 0;        // the last record that was told
  uint64_t first_seq = 1;  // the first one that the sums are of; those before were removed by retention
  int64_t from_us = 0;     // the time of that one; 0: none was removed
  int64_t as_of_us = 0;    // all that was recorded until then is told
  bool closed = false;     // the gateway has stopped since, and nothing is missing
  bool feedback = false;   // the sums of feedback are told, too; not by an earlier version

  bool operator==(const UsageMark&) const = default;
};

std::string BodyOf(const UsageMark& mark);
// DataLoss: it is none.
absl::StatusOr<UsageMark> ReadUsageMark(std::string_view source, std::string_view body);

// The bodies of an hour's parts, in order.
std::vector<std::string> UsageParts(std::vector<ledger::UsageCell> cells);
std::vector<std::string> FeedbackParts(std::vector<ledger::FeedbackCell> cells);
// DataLoss: it is none.
absl::StatusOr<std::vector<ledger::UsageCell>> ReadUsagePart(std::string_view body);
absl::StatusOr<std::vector<ledger::FeedbackCell>> ReadFeedbackPart(std::string_view body);

struct UsagePlace {
  std::string source{};
  std::optional<int64_t> hour{};  // nothing: it is a mark
  bool feedback = false;
};
std::string UsagePartId(std::string_view source, int64_t hour, size_t part);
std::string FeedbackPartId(std::string_view source, int64_t hour, size_t part);
// Nothing: it is no id of usage.
std::optional<UsagePlace> ParseUsageId(std::string_view id);

}  // namespace gateway
