// The id of a request: "req_" and 128 bits in hex, of which the first 48 are the time in milliseconds since 1970
// and the others random, as in a UUID of version 7. The time tells where in the ledger the request stands
// (request_places.h); nobody can guess the rest.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "conf/time.h"

namespace gateway::ledger {

inline constexpr size_t kRequestIdSize = 36;

// `high` gives 16 random bits, `low` 64.
void WriteRequestId(conf::TimePoint now, uint64_t high, uint64_t low, std::array<char, kRequestIdSize>& text);

// Milliseconds since 1970; nothing for a text of another form.
std::optional<int64_t> RequestMillis(std::string_view id);

}  // namespace gateway::ledger
