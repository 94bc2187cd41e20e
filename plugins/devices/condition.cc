#include "plugins/devices/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace plugins::devices {
namespace {

constexpr int kSoonerAfterLoss = 30;

}  // namespace

void Condition::CountThrottling(const Reading& reading, conf::TimePoint now) {
  const conf::Duration step = last_ == conf::TimePoint()
                                  ? conf::Duration::zero()
                                  : std::clamp(now - last_, conf::Duration::zero(), kLongestStep);
  throttled_ += throttling_ ? step : -step;
  throttled_ = std::clamp(throttled_, conf::Duration::zero(), kThrottledFor);
  if (throttled_ == conf::Duration::zero()) hottest_ = 0;
  if (!reading.throttling) {
    throttling_ = false;
    return;
  }
  throttling_ = reading.throttling->thermal || reading.throttling->power_brake;
  if (!throttling_) return;
  hot_ = reading.throttling->thermal;
  if (reading.celsius) hottest_ = std::max(hottest_, *reading.celsius);
}

std::optional<Fault> Condition::WrongWith(const Reading& reading) {
  lost_ = reading.lost ? lost_ + 1 : 0;
  if (lost_ >= kLostAfter) return Fault{"it is lost: its driver cannot reach it", true};
  if (reading.lost) return std::nullopt;

  if (reading.memory_total_mib) {
    const int64_t now = *reading.memory_total_mib;
    memory_mib_ = std::max(memory_mib_.value_or(now), now);
    const bool less = static_cast<double>(now) < kLeastMemory * static_cast<double>(*memory_mib_);
    small_ = less ? small_ + 1 : 0;
    if (small_ >= kConfirmations)
      return Fault{fmt::format("it has lost memory: {} MiB are left of {}", now, *memory_mib_), false};
  }
  if (reading.ecc_uncorrected) {
    const uint64_t now = *reading.ecc_uncorrected;
    uncorrected_ = std::min(uncorrected_.value_or(now), now);
    worse_ = now > *uncorrected_ ? worse_ + 1 : 0;
    if (worse_ >= kConfirmations) {
      return Fault{fmt::format("its memory has had {} uncorrected ECC {}: it has to be reset",
                               now - *uncorrected_, now - *uncorrected_ == 1 ? "error" : "errors"),
                   false};
    }
  }
  if (reading.xid && *reading.xid != 0) {
    if (const std::string_view meaning = MeaningOfXid(*reading.xid); !meaning.empty())
      return Fault{fmt::format("its driver has reported Xid {}: {}", *reading.xid, meaning),
                   IsLostByXid(*reading.xid)};
  }
  if (throttled_ < kThrottledFor) return std::nullopt;
  if (!hot_) return Fault{"its machine's power brake has slowed it down for minutes", false};
  return Fault{hottest_ > 0 ? fmt::format("heat has slowed it down for minutes, at up to {:.0f} °C", hottest_)
                            : "heat has slowed it down for minutes",
               false};
}

void Condition::Add(const Reading& reading, conf::TimePoint now) {
  CountThrottling(reading, now);
  Judge(WrongWith(reading), now);
  last_ = now;
}

void Condition::AddMissing(conf::TimePoint now) {
  ++lost_;
  throttling_ = false;
  std::optional<Fault> wrong;
  if (lost_ >= kLostAfter) wrong = Fault{"it is lost: its driver no longer lists it", true};
  Judge(std::move(wrong), now);
  last_ = now;
}

// A fault keeps its words until it ends, or until a device with a fault is lost.
void Condition::Judge(std::optional<Fault> wrong, conf::TimePoint now) {
  if (wrong) {
    wrong_at_ = now;
    if (!fault_ || (wrong->lost && !fault_->lost)) fault_ = std::move(wrong);
    return;
  }
  if (!fault_ || throttling_) return;
  // A lost device that answers again has most likely been reset.
  if (now - wrong_at_ < (fault_->lost ? calm_for_ / kSoonerAfterLoss : calm_for_)) return;
  fault_.reset();
  calm_for_ = std::min(calm_for_ * 2, kCalmForMost);
}

}  // namespace plugins::devices
