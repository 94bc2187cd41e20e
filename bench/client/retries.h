// When a call that failed is made again: as the official SDKs do it. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/client/answer.h"
#include "scheduler/rng.h"

namespace bench {

// After how long, where `tries` have been made; nothing: it would fail again, or part of an answer has come.
// The server's word precedes the SDKs' own back-off, half a second, doubled to eight, less up to a
// quarter.
std::optional<conf::Duration> RetryAfter(const Answer& answer, uint32_t tries, scheduler::Rng& rng);

}  // namespace bench
