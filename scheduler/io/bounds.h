// The amounts that readers accept: generous, and small enough that sums of them stay in 64 bits and times
// within the clock's range, which ends in 2262.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "conf/time.h"

namespace scheduler::io {

inline constexpr conf::Duration kLongest = std::chrono::hours(24 * 3650);  // of anything that lasts
inline constexpr std::string_view kLongestInWords = "3650d";
inline constexpr conf::Duration kShortestInterval = std::chrono::seconds(1);  // between checkpoints
inline constexpr conf::TimePoint kEarliest{};                                 // 1970
inline constexpr conf::TimePoint kLatest{std::chrono::hours(24) * 47'482};    // 2100-01-01
inline constexpr std::string_view kTimesInWords = "between 1970 and 2100";
inline constexpr uint32_t kMostMembers = 1'000'000;  // of one job
inline constexpr int64_t kMostAmount =
    1'000'000'000'000;  // milli-cores or MiB of one node or member, milli-devices of a quota
inline constexpr double kMostWatts = 1e9;
inline constexpr double kMostWeight = 1e12;

}  // namespace scheduler::io
