// A limit as configuration declares it: a dimension, a capacity, and for budgets a calendar period.
//
// An absent limit means unlimited; a capacity of 0 allows nothing. The unit of a capacity follows its
// dimension: requests, tokens, concurrent requests, micro-USD or milliseconds of devices. Plain values.
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
  kDeviceBudget,  // milliseconds of devices per calendar period; charged as time passes, not per request
};
inline constexpr size_t kDimensions = 8;

// How a dimension is counted.
enum class Shape : uint8_t { kWindow, kGauge, kPeriod };
Shape ShapeOf(Dimension dimension);

// The name that refusals, metrics and the admin API use: `tokens_per_minute`, `budget_per_month`.
// `period` matters for budgets only.
std::string_view LimitName(Dimension dimension, Period period);

// The largest capacity, so that sums of amounts stay far below the int64 maximum.
inline constexpr int64_t kMaxCapacity = 1'000'000'000'000'000;

struct LimitSpec {
  Dimension dimension = Dimension::kRequests;
  int64_t capacity = 0;
  Period period = Period::kDay;  // budgets only
  std::string model = {};        // empty: all models
  std::string device = {};       // kDeviceBudget only: the kind; empty: any

  // Whether both are the same limit of a node, whatever the capacity: then its counter survives a reload.
  bool SameLimit(const LimitSpec& other) const;
};

// One tenant, team or key. `path` begins at its root organisation: `acme/search/key-1`.
struct NodeSpec {
  std::string path;
  std::vector<LimitSpec> limits;
};

// Paths are non-empty segments joined by `/`; capacities are in [0, kMaxCapacity]; no limit stands twice.
absl::Status Validate(const NodeSpec& node);

// `acme/search` for `acme/search/key-1`, empty for a root.
std::string_view ParentPath(std::string_view path);

}  // namespace router::limits
