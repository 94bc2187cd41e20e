// The name under which the limits of a key are kept.
#pragma once

#include <string_view>

#include "plugins/auth/key_table.h"

namespace gateway {

// The id of the first key in the chain of replacements that ends with this key. So a key that replaces another one
// keeps its limits and their use, also while both are valid. The id itself if the table has no such key. The view is
// into `id` or the table.
std::string_view LimitKeyOf(const plugins::auth::KeyTable& keys, std::string_view id);

}  // namespace gateway
