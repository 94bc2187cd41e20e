// Our law: as many replicas as what arrives keeps busy.
//
//   demand = mean work over the window + margin * deviation + backlog that has waited too long / window
//
// in replicas, where work is seconds of a replica (capacity.h) that arrive each second. More when demand is
// above up_at of those that are there or on their way. Fewer when it is below down_at of them and one less
// would still be below up_at; all through `hold`, in which the most that was wanted counts. The deviation is
// that of the last seconds' work from the window's mean, of late. A backlog counts once the oldest who waits
// has waited half of what a first token may take: the early sign that the measured rate says too little.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/autoscale/policy.h"
#include "scheduler/autoscale/window.h"

namespace scheduler::autoscale {

struct DemandSignals {
  double work = 0;          // seconds of a replica that arrived in this tick, for each second of it
  double backlog = 0;       // seconds of a replica that wait at the gateway
  conf::Duration oldest{};  // that waits
};

class DemandLaw {
 public:
  DemandLaw(const DemandSettings& settings, conf::Duration ttft);

  // Once a tick; `replicas` are ready or on their way.
  uint32_t Decide(const DemandSignals& signals, uint32_t replicas, conf::TimePoint now);

  double demand() const { return demand_; }  // replicas, as of the last tick

 private:
  uint32_t Fewest(uint32_t replicas) const;

  DemandSettings settings_;
  conf::Duration ttft_;
  Window work_;
  Window fewest_;  // that sufficed, of late
  double variance_ = 0;
  std::optional<conf::TimePoint> began_;  // to listen
  conf::TimePoint last_{};
  double demand_ = 0;
};

}  // namespace scheduler::autoscale
