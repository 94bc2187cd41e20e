#pragma once

#include <cmath>

namespace scheduler::autoscale {

// Of a signal, which may be anything: a finite number that is not negative.
inline double Sane(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace scheduler::autoscale
