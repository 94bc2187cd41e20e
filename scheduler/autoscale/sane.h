#pragma once

#include <cmath>

namespace scheduler::autoscale {

// A signal may be any number: makes it finite and not negative.
inline double Sane(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace scheduler::autoscale
