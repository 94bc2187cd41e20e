#include "plugins/devices/energy_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plugins::devices {
namespace {

constexpr uint64_t kWrap = uint64_t{1} << 32;

// Whether a device can have drawn that much in that time. A counter may be updated late.
bool Believable(uint64_t mj, double seconds) {
  return static_cast<double>(mj) <= EnergyMeter::kMostWatts * 1000 * (seconds + 1);
}

}  // namespace

EnergyMeter::Step EnergyMeter::Add(const Reading& reading, conf::TimePoint at) {
  Step step;
  if (at_ && at <= *at_) return step;
  const std::optional<conf::TimePoint> since = std::exchange(at_, at);
  const std::optional<uint64_t> counted = std::exchange(counter_, reading.energy_mj);
  const std::optional<double> watts = std::exchange(watts_, reading.watts);
  if (!since) return step;
  const double seconds = conf::ToSeconds(at - *since);
  if (counted && reading.energy_mj) {
    const uint64_t now = *reading.energy_mj;
    if (now >= *counted && Believable(now - *counted, seconds)) {
      step.mj = static_cast<int64_t>(now - *counted);
      step.source = Source::kCounter;
      return step;
    }
    if (now < *counted && *counted < kWrap && Believable(kWrap - *counted + now, seconds)) {
      step.mj = static_cast<int64_t>(kWrap - *counted + now);
      step.source = Source::kCounter;
      return step;
    }
    step.reset = now < *counted;
  }
  // A device that a reading could not reach keeps its last power.
  const std::optional<double> from = watts ? watts : reading.watts;
  const std::optional<double> to = reading.watts ? reading.watts : watts;
  if (at - *since > kLongestStep || !from || *from < 0 || *to < 0 || *from > kMostWatts || *to > kMostWatts) {
    step.gap = at - *since;
    return step;
  }
  const double mj = (*from + *to) / 2 * seconds * 1000 + left_mj_;
  step.mj = static_cast<int64_t>(std::floor(mj));
  left_mj_ = mj - static_cast<double>(step.mj);
  step.source = Source::kPower;
  return step;
}

}  // namespace plugins::devices
