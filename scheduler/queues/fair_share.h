// Fair shares of one amount among the children of a queue.
//
// Each child gets min(deserved, wanted); where more is deserved than is available, all get less in proportion. What a
// child deserves and does not lend is set aside. The rest is divided in rounds, by the over-quota weight w, corrected
// by past usage u to max(0, w + (w - u)), both as shares among the children that still want more (after KAI-Scheduler).
#pragma once

#include <cstdint>
#include <span>

namespace scheduler {

// Amounts in milli of devices.
struct FairShareClaim {
  int64_t deserved = 0;
  int64_t wanted = 0;
  int64_t kept = 0;   // of deserved, what it does not lend
  double weight = 1;  // of what others leave
  int64_t usage = 0;  // decayed, in device-milli-seconds
  int64_t share = 0;  // the result
};

// Sets the shares; their sum is at most `total`. The order of the claims decides which of them get the remainder of
// the rounding.
void DivideFairly(std::span<FairShareClaim> claims, int64_t total);

}  // namespace scheduler
