// The id of a request: "req_" and 128 bits in hex. The first 48 bits are the time in milliseconds since 1970, and the
// others are random, as in a UUID of version 7. The time shows where the request is in the ledger
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

// Milliseconds since 1970; none for a text of another form.
std::optional<int64_t> RequestMillis(std::string_view id);

}  // namespace gateway::ledger
