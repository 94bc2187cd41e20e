// The limits that a key carries of its own, and under whose name they are kept. As JSON they are the members
// of a tenant's `limits`, and `budget`.
//
//   {"requests_per_minute": 60, "tokens_per_minute": 20000, "concurrency": 4, "budget": {"usd": 5, "period":
//   "day"}}
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/auth/key_table.h"
#include "router/limits/spec.h"

namespace gateway {

// InvalidArgument names the member, its value and what would be right.
absl::StatusOr<std::vector<router::limits::LimitSpec>> ParseKeyLimits(std::string_view json);

// "60 requests/min, 4 at once, 5 USD/day"; "-": none of its own. What cannot be read is shown as it is.
std::string LimitsInWords(std::string_view json);

// A key that replaces another goes on with its limits and with what was used of them, also while both work:
// the limits are kept under the id of the first key of the chain. The id itself for one that is not in the
// table.
std::string_view LimitKeyOf(const plugins::auth::KeyTable& keys, std::string_view id);

}  // namespace gateway
