// What the demand law keeps free beside its margin because first tokens come late: the one thing that a user
// sees of all that the law reckons, and so the judge of it.
//
//   allowed = (1 - attainment) of the first tokens of the last while, less those that are late anywhere
//   spent   = what was late beside those, of what is allowed
//   headroom grows while more than three quarters are spent, and shrinks again while less are
//
// A prompt that takes an idle replica longer than slo.ttft is late anywhere, and more replicas do not mend
// that: such ones use up what is allowed, and are no reason to grow. Up to half of it the others make good;
// where they use up all of it the attainment is out of reach, and nothing is kept free for it. Nor does
// anything grow by what came while replicas were on their way, or just after, which has been decided already,
// nor by a while of so few that fewer than five may be late. What is kept free is a part of the demand,
// bounded.
//
// Owner: the demand law. Pure but for what it remembers; times must not go back.
#pragma once

#include <optional>

#include "conf/time.h"

namespace scheduler::autoscale {

// In one tick.
struct FirstTokens {
  double came = 0;
  double late = 0;      // of these, after slo.ttft, though one replica could have had them in time
  double hopeless = 0;  // of these, that no replica could have had in time
};

class Headroom {
 public:
  // Of first tokens that are to come within `ttft`.
  Headroom(double attainment, conf::Duration ttft);

  // Once a tick. `starting`: replicas are on their way.
  void Learn(const FirstTokens& tokens, bool starting, conf::TimePoint now);

  double part() const { return part_; }  // of demand, 0 to kMost
  double late() const;                   // share of the first tokens of the last while

  static constexpr double kMost = 0.25;

 private:
  double Spent() const;

  double may_be_late_;  // share
  conf::Duration ttft_;
  FirstTokens sums_{};  // of the last while
  double part_ = 0;
  std::optional<conf::TimePoint> last_;
  std::optional<conf::TimePoint> starting_until_;
};

}  // namespace scheduler::autoscale
