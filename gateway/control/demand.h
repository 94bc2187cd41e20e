// Demand: one request's part of what its model is asked for: from when it is admitted until it ends it is
// there, and as long as it waits it is held. Bumps its shard's cells, which the control loop adds up.
//
// Owner: the exchange. Shard's thread.
#pragma once

#include <cstdint>
#include <utility>

#include "gateway/metrics/shard_metrics.h"

namespace gateway {
struct Exchange;
}

namespace gateway::control {

class Demand {
 public:
  Demand() = default;
  Demand(const Demand&) = delete;
  Demand& operator=(const Demand&) = delete;
  ~Demand() {
    LetGo();
    if (cells_) cells_->active.Sub();
  }

  void Begin(DemandCells& cells, uint64_t work_ns) {
    cells_ = &cells;
    work_ns_ = work_ns;
    cells.work_ns.Add(work_ns);
    cells.active.Add();
  }
  void Hold() {
    if (cells_ && !std::exchange(held_, true)) cells_->held_work_ns.Add(work_ns_);
  }
  void LetGo() {
    if (std::exchange(held_, false)) cells_->held_work_ns.Sub(work_ns_);
  }

 private:
  DemandCells* cells_ = nullptr;  // null: nobody scales by it
  uint64_t work_ns_ = 0;          // of a replica
  bool held_ = false;
};

// What the request will take of a replica, as far as can be told before it is sent. Its model has an outlook.
uint64_t WorkOf(const Exchange& x);

}  // namespace gateway::control
