// One more replica of a model, where replicas of several models sleep on the same devices: which sleeper wakes, whether
// a new replica starts instead, and which replica makes room for it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "conf/time.h"

namespace scheduler::autoscale {

// A sleeping replica, and the holders of the devices on which it would wake.
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
  double load = 0;     // kHeldByBusy: the highest of the holders'
  bool waits = false;  // it is to wake already
};

// How long one more replica takes until it serves.
struct StartTimes {
  conf::Duration wake{};                 // on free devices; zero: not measured
  conf::Duration room{};                 // until others have made room
  std::optional<conf::Duration> cold{};  // on other devices that are free; absent: there are none
};

// The sleeper to wake for one more replica: the one that serves soonest; among sleepers on devices of busy models, the
// one beside the lowest load; among equals, the one that has slept the shortest. Absent: a cold start elsewhere is
// sooner, or all of them sleep on devices that stay held.
std::optional<uint32_t> ChooseSleeper(std::span<const Sleeper> sleepers, const StartTimes& times);

enum class Need : uint8_t {
  kNow,       // requests wait, or an operator or the policy's floor wants it
  kForeseen,  // others keep the devices that they have
};

// A replica that holds the devices on which a wanted replica sleeps.
struct Holder {
  uint32_t id = 0;
  conf::Duration awake{};  // since it was ready
  conf::Duration idle{};   // since it or its queue had a request
  conf::Duration min_awake{};
  conf::Duration change{};  // one falls asleep and the other wakes, as measured
  conf::Duration drain{};   // until the last request of a busy one has ended, likewise
  double load = 0;          // of its model (Autoscaler::recent_load), for each ready replica
};

// The claim of a model that needs a replica.
struct Claim {
  double load = 0;                // of the model
  conf::Duration oldest{};        // the longest wait of its requests
  conf::Duration longest_wait{};  // for which they may wait; zero: forever
  bool is_owed = false;           // an operator or the policy's floor wants it, whatever the load
};

// One more replica of a model is wanted.
struct OneMore {
  std::span<const Sleeper> sleepers{};  // of the model
  std::span<const Holder> holders{};    // of other models, on devices that suit
  Claim claim{};
  StartTimes times{};
  conf::Duration start{};  // how long a cold start takes
  Need need = Need::kNow;
  bool falls_asleep = false;  // a replica of the model is falling asleep, and can wake in a moment
  bool others_wait = false;   // replicas, of any model, wait for devices
};

struct StartChoice {
  enum class Kind : uint8_t { kNothing, kWake, kNew };
  Kind kind = Kind::kNothing;
  uint32_t sleeper = 0;  // to wake
};

// Beside a busy model a sleeper would only take turns with it. So a new replica starts elsewhere, where devices are
// free, held by an idle replica, or held by a model with less load that makes room now. That is a second place to wake
// at.
StartChoice ChooseStart(const OneMore& wanted);

// Whether `choice` is now better for a replica that waits for devices, and is to take its place. `sleeper`: the waiting
// replica among the sleepers of `wanted`; absent: it is a cold start.
bool IsOvertaken(std::optional<uint32_t> sleeper, const StartChoice& chosen_now);

// Whether the holder is not needed: it had no request for as long as the change takes. A change that turns out to be
// wrong then costs at most as much again.
bool IsIdle(const Holder& holder);

// Whether the holder makes room now. An idle one does after min_awake. A busy one does once it was awake for ten times
// the cost of the change, the drain included, so that busy models lose a tenth of the devices' time at most. It makes
// room only for a model with more load, for one whose requests have waited for four fifths of the longest wait, or for
// one that is owed a replica.
bool MakesRoom(const Holder& holder, const Claim& claim);

// Among suitable holders, the one that has not been needed for the longest time; absent: all are needed.
std::optional<Holder> ChooseIdle(std::span<const Holder> holders);

// The holder that makes room for a new replica that has found no devices and takes `start` to serve: the one that has
// not been needed for the longest time; else the one with the least load among those that make room. The start is a
// part of the change; where requests have waited too long it counts once. Without turns, a model that never ran would
// wait until another model has no requests.
std::optional<Holder> ChooseForStart(std::span<const Holder> holders, const Claim& claim,
                                     conf::Duration start);

}  // namespace scheduler::autoscale
