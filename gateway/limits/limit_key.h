// Under whose name the limits of a key are kept.
#pragma once

#include <string_view>

#include "plugins/auth/key_table.h"

namespace gateway {

// The id of the first key of the chain of replacements that ends with this key: a key that replaces another
// keeps its limits and what was used of them, also while both work. The id itself where the table has no such
// key. The view is of `id` or of the table.
std::string_view LimitKeyOf(const plugins::auth::KeyTable& keys, std::string_view id);

}  // namespace gateway
