// Fair shares of one amount among the children of a queue.
//
// Each gets min(deserved, wanted); where more is promised than there is, all give way alike. Then rounds go
// over what is left, by over-quota weight w corrected by past usage u to max(0, w + (w - u)), both as shares
// of those who still want (after KAI-Scheduler). What a child deserves and does not lend is set aside before
// that.
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

// Sets the shares; their sum is at most `total`. The order of the claims decides who gets what rounding
// leaves.
void DivideFairly(std::span<FairShareClaim> claims, int64_t total);

}  // namespace scheduler
