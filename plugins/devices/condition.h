// Condition: whether a device should still be used, judged by its readings.
//
// A single reading decides nothing:
// - heat or a power brake counts as a fault when it has slowed the device down for kThrottledFor more than it has
//   not; the power cap, ordinary under load, does not count,
// - a device that its driver cannot reach, or no longer lists, is lost after kLostAfter such readings in a row,
// - memory below the part kLeastMemory of its earlier size is a fault after kConfirmations readings in a row,
// - uncorrected ECC errors are a fault when kConfirmations readings in a row show more of them than at first,
//   until the counter falls back at a reset,
// - an Xid from an exporter is a fault by its meaning (faults.h), until another comes or it is 0.
// A fault ends when nothing has been wrong for a while, which doubles with each fault of the device: at first
// kCalmFor, at most kCalmForMost; a thirtieth of it where the device was lost and answers again. So a sensor that
// flaps takes the device out once, not every minute.
//
// Absent readings decide nothing. Pure: time comes in. One object for each device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "conf/time.h"
#include "plugins/devices/faults.h"
#include "plugins/devices/reading.h"

namespace plugins::devices {

class Condition {
 public:
  static constexpr conf::Duration kThrottledFor = std::chrono::minutes(5);
  static constexpr conf::Duration kLongestStep = std::chrono::seconds(30);  // a longer silence counts as this
  static constexpr int kLostAfter = 3;
  static constexpr int kConfirmations = 3;
  static constexpr double kLeastMemory = 0.9;
  static constexpr conf::Duration kCalmFor = std::chrono::minutes(5);
  static constexpr conf::Duration kCalmForMost = std::chrono::hours(24);

  // `now` never goes back.
  void Add(const Reading& reading, conf::TimePoint now);
  // Its tool has answered, and does not list the device.
  void AddMissing(conf::TimePoint now);

  // The fault with its evidence: what was measured, and for how long. Absent: the device may be used.
  const std::optional<Fault>& fault() const { return fault_; }

 private:
  void Judge(std::optional<Fault> wrong, conf::TimePoint now);
  void CountThrottling(const Reading& reading, conf::TimePoint now);
  std::optional<Fault> WrongWith(const Reading& reading);

  std::optional<Fault> fault_{};
  conf::TimePoint last_{};
  conf::Duration throttled_{};  // more than not
  bool throttling_ = false;     // by the last reading
  bool hot_ = false;            // of the time counted in throttled_: by heat; else by the power brake
  double hottest_ = 0;          // °C while it was slowed down
  int lost_ = 0;
  int small_ = 0;
  int worse_ = 0;
  std::optional<int64_t> memory_mib_{};
  std::optional<uint64_t> uncorrected_{};  // at first, or after a reset
  conf::Duration calm_for_ = kCalmFor;     // until the next fault ends
  conf::TimePoint wrong_at_{};             // last
};

}  // namespace plugins::devices
