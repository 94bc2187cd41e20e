// CrashLoop: how long a model or a job waits for its next start after failed ones: one second, doubling up to five
// minutes, until a replica has served, or the job has run, for a minute.
//
// Pure value. Times must not go back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "conf/time.h"

namespace gateway::control {

class CrashLoop {
 public:
  static constexpr conf::Duration kFirst = std::chrono::seconds(1);
  static constexpr conf::Duration kLongest = std::chrono::minutes(5);
  static constexpr conf::Duration kServedWell = std::chrono::minutes(1);

  // A replica that had served for this long has failed; zero: it never became ready.
  void Failed(std::string why, conf::Duration served, conf::TimePoint now) {
    why_ = std::move(why);
    if (served >= kServedWell) failures_ = 0;
    if (failures_ > 0 && now < next_) return;  // of several failures at once, one counts
    ++failures_;
    conf::Duration pause = kFirst;
    for (uint32_t i = 1; i < failures_ && pause < kLongest; ++i) pause = std::min(2 * pause, kLongest);
    next_ = now + pause;
  }
  void Served(conf::Duration for_so_long) {
    if (for_so_long < kServedWell) return;
    failures_ = 0;
    why_.clear();
  }

  uint32_t failures() const { return failures_; }
  conf::TimePoint next() const { return next_; }
  bool MayStart(conf::TimePoint now) const { return now >= next_; }
  const std::string& why() const { return why_; }  // of the last failure

 private:
  uint32_t failures_ = 0;  // in a row
  conf::TimePoint next_{};
  std::string why_;
};

}  // namespace gateway::control
