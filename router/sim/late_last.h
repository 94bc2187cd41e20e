// Who waits at the gateway for a replica of an elastic pool: by arrival, but whoever cannot have a first
// token in time any more goes behind all who can, but for a part of the turns.
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
  double work = 0;     // seconds of a replica, that it is reckoned to take
  double prefill = 0;  // seconds of its whole prompt on a replica
  double cost = 0;     // as AdmissionQueue's
};

class LateLast {
 public:
  // `ttft`: a first token is in time within this. `hold`: nobody waits for longer.
  LateLast(conf::Duration ttft, conf::Duration hold);

  // False: it cannot wait.
  bool Enter(const Waiting& who, conf::TimePoint now);

  struct Called {
    WaitTicket ticket = 0;
    Waiting who;
    bool expired = false;
  };
  // Whoever goes next; its turn is used once it has been charged, and left with Leave.
  std::optional<Called> Next(conf::TimePoint now);
  void Leave(WaitTicket ticket, conf::TimePoint now) { queue_.Leave(ticket, now); }

  // How long one that was called took to its first token, beyond its own prefill: in time is judged by it.
  void LearnBesidePrefill(double seconds);
  // Those who cannot be in time any more give way; returns how many are gone, having waited for too long.
  uint32_t MoveLate(conf::TimePoint now);
  // Those who have waited for too long.
  void DropExpired(conf::TimePoint now, const std::function<void(const Waiting&)>& dropped);

  size_t size() const { return held_.size(); }
  double work() const { return work_; }  // of all, seconds of a replica
  conf::Duration oldest(conf::TimePoint now);

 private:
  using Order = std::deque<WaitTicket>;  // by arrival; those that have left are dropped on the way
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
  double work_ = 0;
  double beside_prefill_ = 0;  // seconds from the queue to a first token, beyond the prefill
};

}  // namespace router::sim
