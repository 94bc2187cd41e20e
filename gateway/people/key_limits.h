// The limits that a key carries of its own. As JSON they are the members of a tenant's `limits`, and `budget`.
//
//   {"requests_per_minute": 60, "tokens_per_minute": 20000, "concurrency": 4, "budget": {"usd": 5, "period":
//   "day"}}
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "router/limits/spec.h"

namespace gateway {

// InvalidArgument names the member, its value and what would be right.
absl::StatusOr<std::vector<router::limits::LimitSpec>> ParseKeyLimits(std::string_view json);

// "60 requests/min, 4 at once, 5 USD/day"; "-": none of its own. What cannot be read is shown as it is.
std::string LimitsInWords(std::string_view json);

}  // namespace gateway
