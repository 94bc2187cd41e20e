// Which replica wakes, and which one makes room for it, where replicas of several models slept on the same
// devices. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "conf/time.h"

namespace scheduler::autoscale {

// A replica that sleeps, and what holds the devices on which it would wake.
struct Sleeper {
  enum class Devices : uint8_t {
    kFree,
    kHeldByOthers,  // that make room: preemptible work, or a replica that is idle
    kHeldByBusy,    // a replica that makes room once its turn is over
    kHeldForLong,   // by work that makes no room
  };
  uint32_t id = 0;
  Devices devices = Devices::kFree;
  conf::Duration asleep{};
};

// How long one more replica takes until it serves.
struct StartTimes {
  conf::Duration wake{};                 // on free devices; zero: not measured
  conf::Duration room{};                 // until others have made room
  std::optional<conf::Duration> cold{};  // on other devices that are free; absent: there are none
};

// The sleeper to wake for one more replica: the one that serves soonest, and of equals the one that has slept
// the shortest. Nothing: a cold start elsewhere is sooner, or all sleep on devices that stay held.
std::optional<uint32_t> ChooseSleeper(std::span<const Sleeper> sleepers, const StartTimes& times);

// A replica that holds devices on which another one slept that is wanted again.
struct Holder {
  conf::Duration awake{};  // since it was ready
  conf::Duration idle{};   // since it or its queue had a request
  conf::Duration min_awake{};
  conf::Duration change{};  // one falls asleep and the other wakes, as measured
};

// Whether it is not needed: it had no request for as long as the change takes, so that a change that turns out to
// be wrong costs at most as much again.
bool IsIdle(const Holder& holder);

// Whether it makes room now. Idle: after min_awake. Busy: once it was awake for ten times what the change costs,
// so that models that are all busy lose a tenth of the devices' time at most.
bool MakesRoom(const Holder& holder);

}  // namespace scheduler::autoscale
