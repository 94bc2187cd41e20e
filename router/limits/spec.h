// What a limit is, as configuration declares it: a dimension, a capacity, and for budgets a calendar period.
//
// An absent limit means unlimited; a capacity of 0 means nothing is allowed. Capacities are requests, tokens,
// concurrent requests, micro-USD or milliseconds of devices, after the dimension. Plain values, no thread
// rules.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/limits/calendar.h"

namespace router::limits {

enum class Dimension : uint8_t {
  kRequests,      // requests per minute
  kTokens,        // input and output tokens per minute
  kInputTokens,   // per minute
  kOutputTokens,  // per minute
  kConcurrency,   // requests between admission and the end of their stream
  kBudget,        // micro-USD per calendar period
  kTokenBudget,   // input and output tokens per calendar period
  kDeviceBudget,  // milliseconds of devices per calendar period; charged as they pass, by no request
};
inline constexpr size_t kDimensions = 8;

// How a dimension is counted.
enum class Shape : uint8_t { kWindow, kGauge, kPeriod };
Shape ShapeOf(Dimension dimension);

// The name that refusals, metrics and the admin API use: `tokens_per_minute`, `budget_per_month`.
// `period` is looked at for budgets only.
std::string_view LimitName(Dimension dimension, Period period);

// No capacity may be larger, so that sums of amounts stay far from the end of int64.
inline constexpr int64_t kMaxCapacity = 1'000'000'000'000'000;

struct LimitSpec {
  Dimension dimension = Dimension::kRequests;
  int64_t capacity = 0;
  Period period = Period::kDay;  // read for budgets only
  std::string model = {};        // empty: counts requests for any model
  std::string device = {};       // of a kDeviceBudget: the kind; empty: any

  // The same limit of the same node, whatever its capacity: what keeps its counters over a reload.
  bool SameLimit(const LimitSpec& other) const;
};

// One tenant, team or key. `path` names it from its root organisation down: `acme/search/key-1`.
struct NodeSpec {
  std::string path;
  std::vector<LimitSpec> limits;
};

// Paths are non-empty segments joined by `/`; capacities are in [0, kMaxCapacity]; no limit stands twice.
absl::Status Validate(const NodeSpec& node);

// `acme/search` for `acme/search/key-1`, empty for a root.
std::string_view ParentPath(std::string_view path);

}  // namespace router::limits
