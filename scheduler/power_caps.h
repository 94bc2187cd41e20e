// Power limits for devices whose work can wait, while a power budget is short.
//
// Where more than the part `above` of a budget is drawn, devices under this budget that only low work holds get lower
// limits: each gives up a part of the excess, in proportion to its draw above its lowest limit. When less is drawn
// again, limits rise by half of the room, so that they do not swing. A device without low work has its usual limit.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/model.h"

namespace scheduler {

struct CapRule {
  double above = 0.9;  // the part of a budget that may be drawn before limits are lowered
  double least = 0.5;  // the lowest limit, as a part of the usual one
};

// A device whose limit can be set.
struct CappedDevice {
  NodeId node = 0;
  bool is_low = false;     // only low work holds it
  double watts = 0;        // drawn now
  double usual = 0;        // its limit without a cap
  double least_limit = 0;  // that its driver allows
  std::optional<double> cap{};
};

// The present cap of each device; absent: its usual limit. `drawn`: by domain of the cluster, in watts.
std::vector<std::optional<double>> DecideCaps(const Cluster& cluster, std::span<const double> drawn,
                                              std::span<const CappedDevice> devices, const CapRule& rule);

}  // namespace scheduler
