// LearnedPower: the power of a device, learned from readings, for kinds whose watts the cluster does not declare.
//
// A busy device counts with the 95th percentile of what held devices have drawn, and with its power limit until
// held devices have been read for ten minutes in all: until then no draw below it is certain. An idle device
// counts with the mean of what free devices draw. Pure. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "scheduler/model.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

class LearnedPower {
 public:
  static constexpr double kEnoughSeconds = 600;  // of held devices
  static constexpr double kQuantile = 0.95;

  // A device drew `watts` for `seconds`. `limit`: the most that it may draw, where that is known.
  void Add(KindId kind, bool held, double watts, std::optional<double> limit, double seconds);

  // Declared watts are used as they are. Absent: neither a reading nor a limit is known yet.
  std::optional<KindWatts> Of(KindId kind, const DeviceKind& declared) const;

 private:
  static constexpr double kStep = 10;     // watts
  static constexpr size_t kSteps = 300;   // the last: more
  static constexpr double kMost = 86400;  // seconds that are remembered with their full weight

  struct Seen {
    std::array<double, kSteps> held{};  // seconds
    double held_seconds = 0;
    double idle_seconds = 0;
    double idle_joules = 0;
    double limit = 0;
    bool enough = false;
  };
  std::map<KindId, Seen> seen_;
};

}  // namespace scheduler
