// Headroom: the part of the demand that the demand law keeps free beside its margin, because first tokens
// came late. Users notice late first tokens, so these show whether the law's estimates were right.
//
//   allowed = (1 - attainment) of the recent first tokens, less the hopeless ones
//   spent   = the other late first tokens / allowed
//
// Headroom grows while spent > 3/4, and shrinks while it is less. A hopeless token belongs to a prompt that takes an
// idle replica longer than slo.ttft: it is late on any number of replicas. Hopeless tokens use up at most half of what
// is allowed; if they would use up all of it, the attainment is out of reach and nothing is kept free. Late tokens do
// not count while replicas start or just after. While fewer than five may be late, lateness within two standard
// deviations of chance does not count either. Headroom is a bounded part of the demand.
//
// Owner: the demand law. Pure but for its memory; times must not go back.
#pragma once

#include <optional>

#include "conf/time.h"

namespace scheduler::autoscale {

// First tokens of one tick.
struct FirstTokens {
  double came = 0;
  double late = 0;      // of these, after slo.ttft, although a replica could have served them in time
  double hopeless = 0;  // of these, that no replica could have served in time
};

class Headroom {
 public:
  // `ttft`: the objective for the time to the first token.
  Headroom(double attainment, conf::Duration ttft);

  // Once a tick. `starting`: replicas are on their way.
  void Learn(const FirstTokens& tokens, bool starting, conf::TimePoint now);

  double part() const { return part_; }  // of demand, 0 to kMost
  double late() const;                   // share of the recent first tokens

  static constexpr double kMost = 0.25;

 private:
  double Spent() const;

  double may_be_late_;  // share
  conf::Duration ttft_;
  FirstTokens sums_{};  // recent
  double part_ = 0;
  std::optional<conf::TimePoint> last_;
  std::optional<conf::TimePoint> starting_until_;
};

}  // namespace scheduler::autoscale
