#include "scheduler/autoscale/headroom.h"

#include <algorithm>
#include <cmath>

#include "scheduler/autoscale/sane.h"

namespace scheduler::autoscale {
namespace {

constexpr double kOver = 900;          // seconds, "the last while"
constexpr double kSpend = 0.75;        // of what is allowed
constexpr double kMostSpent = 3;       // beyond which it grows no faster
constexpr double kGrowth = 2e-4;       // of demand a second, for all that is allowed
constexpr double kFewest = 5;          // first tokens that may be late: where fewer may, chance counts
constexpr double kSureLate = 2;        // standard deviations that are no chance
constexpr double kMostHopeless = 0.5;  // of what is allowed
constexpr double kMostAttainment = 0.9999;

}  // namespace

Headroom::Headroom(double attainment, conf::Duration ttft)
    : may_be_late_(1 - std::clamp(attainment, 0.0, kMostAttainment)), ttft_(ttft) {}

double Headroom::late() const {
  return sums_.came > 0 ? std::min((sums_.late + sums_.hopeless) / sums_.came, 1.0) : 0;
}

// 0 while chance may explain the lateness, and where the attainment is out of reach.
double Headroom::Spent() const {
  const double allowed = may_be_late_ * sums_.came;
  if (allowed <= 0 || sums_.hopeless >= allowed) return 0;
  const double chance = allowed < kFewest ? kSureLate * std::sqrt(sums_.late) : 0;
  const double late = std::max(sums_.late - chance, 0.0);
  return std::min(late / (allowed - std::min(sums_.hopeless, kMostHopeless * allowed)), kMostSpent);
}

void Headroom::Learn(const FirstTokens& tokens, bool starting, conf::TimePoint now) {
  const double passed = last_ ? conf::ToSeconds(now - *last_) : 0;
  last_ = now;
  // A request that has waited for a replica gets a late first token once the replica is there.
  if (starting) starting_until_ = now + 2 * ttft_;
  if (!starting_until_ || now > *starting_until_) {
    const double kept = std::exp(-passed / kOver);
    sums_.came = sums_.came * kept + Sane(tokens.came);
    sums_.late = sums_.late * kept + Sane(tokens.late);
    sums_.hopeless = sums_.hopeless * kept + Sane(tokens.hopeless);
  }
  part_ = std::clamp(part_ + kGrowth * (Spent() - kSpend) * passed, 0.0, kMost);
}

}  // namespace scheduler::autoscale
