// The queue at the gateway for a replica of an elastic pool: by arrival, but a request that can no longer
// have its first token in time goes behind all that can, except for a reserved part of the dispatches.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "conf/time.h"
#include "router/admission/queue.h"

namespace router::sim {

struct Waiting {
  uint32_t request = 0;
  conf::TimePoint arrived{};
  double work = 0;     // estimated seconds of a replica
  double prefill = 0;  // seconds of its whole prompt on a replica
  double cost = 0;     // as in AdmissionQueue
};

class LateLast {
 public:
  // `ttft`: the time within which a first token is in time. `hold`: the longest wait.
  LateLast(conf::Duration ttft, conf::Duration hold);

  // Whether replicas are on their way.
  void SetStarting(bool starting) { starting_ = starting; }

  // False: refused, since it would wait for longer than `hold` at the measured pace.
  bool Enter(const Waiting& who, conf::TimePoint now);

  struct Called {
    WaitTicket ticket = 0;
    Waiting who;
    bool expired = false;
  };
  // Takes the next request out. Call Leave once it is charged to a replica.
  std::optional<Called> Next(conf::TimePoint now);
  void Leave(WaitTicket ticket, conf::TimePoint now) { queue_.Leave(ticket, now); }

  // Learns how long a dispatched request took to its first token beyond its own prefill; predicts lateness.
  void LearnBesidePrefill(double seconds);
  // Moves requests that can no longer be in time behind the others.
  void MoveLate(conf::TimePoint now);
  // Drops requests that have waited too long.
  void DropExpired(conf::TimePoint now, const std::function<void(const Waiting&)>& dropped);

  size_t size() const { return held_.size(); }
  double work() const { return work_; }  // of all requests, seconds of a replica
  conf::Duration oldest(conf::TimePoint now);

 private:
  using Order = std::deque<WaitTicket>;  // by arrival; tickets that have left are dropped in passing
  enum Band : uint32_t { kInTime, kLate };

  bool Enter(const Waiting& who, Band band, conf::TimePoint now);
  const Waiting* First(Order& order);
  Waiting Take(WaitTicket ticket);
  Waiting Forget(WaitTicket ticket, conf::TimePoint now);

  const conf::Duration ttft_;
  const conf::Duration hold_;
  AdmissionQueue queue_;
  absl::flat_hash_map<WaitTicket, Waiting> held_;
  Order in_time_;
  Order late_;
  bool starting_ = false;
  double work_ = 0;
  double beside_prefill_ = 0;  // seconds from the queue to a first token, beyond the prefill
};

}  // namespace router::sim
