// EnergyMeter: what a device has drawn between two readings, in millijoules.
//
// By the device's own energy counter, which misses nothing between readings, however far they are apart. A counter
// that falls was reset, as when a driver is loaded anew, or has wrapped around at 32 bits; one that rises faster
// than a device can draw is not believed. For such a step, and for devices without a counter, power is integrated
// over time (trapezoids), where the readings are at most kLongestStep apart. Anything longer is a gap: nothing is
// counted, and the gap is told.
//
// Pure: time comes in with the readings. One device each.
#pragma once

#include <cstdint>
#include <optional>

#include "conf/time.h"
#include "plugins/devices/reading.h"

namespace plugins::devices {

class EnergyMeter {
 public:
  static constexpr conf::Duration kLongestStep = std::chrono::seconds(10);
  static constexpr double kMostWatts = 3000;  // of a device, far above any

  enum class Source : uint8_t { kNone, kCounter, kPower };
  struct Step {
    int64_t mj = 0;
    Source source = Source::kNone;
    bool reset = false;    // the counter fell, and did not wrap
    conf::Duration gap{};  // not measured
  };

  // `at` must be later than that of the reading before, else nothing is counted. The first reading counts nothing.
  Step Add(const Reading& reading, conf::TimePoint at);

 private:
  std::optional<conf::TimePoint> at_{};
  std::optional<uint64_t> counter_{};
  std::optional<double> watts_{};
  double left_mj_ = 0;  // less than one, of integrated power
};

}  // namespace plugins::devices
