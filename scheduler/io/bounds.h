// The amounts that readers accept: generous, and small enough that sums of them stay in 64 bits and times
// within the clock's range, which ends in 2262.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "scheduler/model.h"

namespace scheduler::io {

inline constexpr conf::Duration kLongest = std::chrono::hours(24 * 3650);  // of anything that lasts
inline constexpr std::string_view kLongestInWords = "3650d";
inline constexpr conf::Duration kShortestInterval = std::chrono::seconds(1);    // between checkpoints
inline constexpr conf::TimePoint kEarliest{};                                   // 1970
inline constexpr conf::TimePoint kLatest{std::chrono::hours(24) * 47'482};      // 2100: of submissions
inline constexpr conf::TimePoint kLastMoment{std::chrono::hours(24) * 91'310};  // 2220: of what came of them

inline constexpr size_t kMostNodes = 200'000;
inline constexpr size_t kMostTypes = 10'000;
inline constexpr size_t kMostLevels = 8;
inline constexpr size_t kMostQueues = 10'000;
inline constexpr uint32_t kMostMembers = 1'000'000;  // of one job
// Milli-cores or MiB of one node or member, milli-devices of a quota.
inline constexpr int64_t kMostAmount = 1'000'000'000'000;
inline constexpr double kMostWatts = 1e9;
inline constexpr double kMostWeight = 1e12;

// The first amount of a cluster that is out of these bounds, or the first name that is given twice; empty:
// none. After scheduler::FirstDefect.
std::string FirstExcess(const Cluster& cluster);

}  // namespace scheduler::io
