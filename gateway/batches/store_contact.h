// StoreContact: whether this gateway hears of the store's changes, by which it may run shared batches, and take over
// those of gateways that are gone.
//
// A gateway that has not heard of the store for a moment sends no line: another one may have taken the batch over.
// One that hears of it again waits before it takes over anything: others may have been cut off like itself.
//
// Pure: time comes in. One thread.
#pragma once

#include "conf/time.h"

namespace gateway::batches {

class StoreContact {
 public:
  // Less than the time after which others count this gateway as gone.
  static constexpr conf::Duration kTrust = std::chrono::seconds(5);

  // `settle`: how long the store must have answered before another gateway may be known to be gone.
  explicit StoreContact(conf::Duration settle) : settle_(settle) {}

  // An ask of the store that was sent at `asked` was answered.
  void Heard(conf::TimePoint asked) {
    if (asked >= heard_ + kTrust) since_ = asked;
    heard_ = asked;
  }
  bool MaySend(conf::TimePoint now) const { return now < heard_ + kTrust; }
  bool MayTakeOver(conf::TimePoint now) const { return MaySend(now) && now >= since_ + settle_; }

 private:
  const conf::Duration settle_;
  conf::TimePoint heard_{};
  conf::TimePoint since_{};
};

}  // namespace gateway::batches
