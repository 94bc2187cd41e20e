// JSON that two readers cannot understand differently: no repeated member, bounded depth and size.
//
// Security documents (token headers, claims, key sets, key events) are read only through here.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace plugins::auth {

inline constexpr size_t kMaxJsonDepth = 16;

// A whole JSON object and nothing after it. Errors say what is wrong, never what the text was.
absl::StatusOr<nlohmann::json> ParseStrictObject(std::string_view text);

}  // namespace plugins::auth
