// When a call that failed is made again: as the official SDKs do it. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/client/answer.h"
#include "scheduler/rng.h"

namespace bench {

// The pause before the next try, after `tries` tries; absent: it would fail again, or a part of the answer has come.
// The server's own figure counts before the back-off of the SDKs: half a second, doubled up to eight, less up to a
// quarter.
std::optional<conf::Duration> RetryAfter(const Answer& answer, uint32_t tries, scheduler::Rng& rng);

}  // namespace bench
