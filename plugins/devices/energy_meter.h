// EnergyMeter: the energy that a device has drawn between two readings, in millijoules.
//
// The device's own energy counter misses nothing between readings, however far they are apart. A counter that falls was
// reset, for example because the driver was loaded again, or has wrapped around at 32 bits; a rise that is faster than a
// device can draw is not believed. For such a step, and for devices without a counter, power is integrated over time
// (trapezoids), where the readings are at most kLongestStep apart. A longer step is a gap: nothing is counted, and the
// gap is reported.
//
// Pure: time comes in with the readings. One object for each device.
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
