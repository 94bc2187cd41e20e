// One more replica of a model where replicas of several models sleep on the same devices: which one wakes, whether a
// new one starts, and which replica makes room for it. Pure.
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
  double load = 0;     // kHeldByBusy: the highest of the holders'
  bool waits = false;  // it is to wake already
};

// How long one more replica takes until it serves.
struct StartTimes {
  conf::Duration wake{};                 // on free devices; zero: not measured
  conf::Duration room{};                 // until others have made room
  std::optional<conf::Duration> cold{};  // on other devices that are free; absent: there are none
};

// The sleeper to wake for one more replica: the one that serves soonest; of those on devices of busy models, where the
// load is lowest; of equals the one that has slept the shortest. Nothing: a cold start elsewhere is sooner, or all
// sleep on devices that stay held.
std::optional<uint32_t> ChooseSleeper(std::span<const Sleeper> sleepers, const StartTimes& times);

enum class Need : uint8_t {
  kNow,       // requests wait, or an operator or the policy's floor wants it
  kForeseen,  // others keep the devices that they have
};

// A replica that holds devices on which another one slept that is wanted again.
struct Holder {
  uint32_t id = 0;
  conf::Duration awake{};  // since it was ready
  conf::Duration idle{};   // since it or its queue had a request
  conf::Duration min_awake{};
  conf::Duration change{};  // one falls asleep and the other wakes, as measured
  conf::Duration drain{};   // until the last request of a busy one has ended, likewise
  double load = 0;          // of its model (Autoscaler::recent_load), for each ready replica
};

// What a model that needs a replica asks others for.
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

// Beside a busy model a sleeper would only take turns while devices elsewhere are free, held by an idle replica, or by
// one of a model with less load that makes room now. So a new replica is started there: a second place to wake at.
StartChoice ChooseStart(const OneMore& wanted);

// A replica that waits for devices: one that is to wake, which is among the sleepers of `wanted`, or one that is to
// start. Whether another choice is better by now, which then takes its place.
bool IsOvertaken(std::optional<uint32_t> sleeper, const StartChoice& chosen_now);

// Whether it is not needed: it had no request for as long as the change takes, so that a change that turns out to
// be wrong costs at most as much again.
bool IsIdle(const Holder& holder);

// Whether it makes room now. Idle: after min_awake. Busy: once it was awake for ten times what the change costs, the
// drain included, so that models that are all busy lose a tenth of the devices' time at most; and only for a model with
// more load, one whose requests have waited for four fifths of the time for which they may, or one that is owed a replica.
bool MakesRoom(const Holder& holder, const Claim& claim);

// Of holders that suit, the one that is not needed for the longest; nothing: all are needed.
std::optional<Holder> ChooseIdle(std::span<const Holder> holders);

// Which of the holders makes room for a new replica that has found no devices and takes `start` to serve: the one that
// is not needed for the longest; else, of those that make room, the one with the least load. The start is a part of the
// change; where requests have waited too long it counts once. Without turns a model that never ran would wait until
// another one has no requests.
std::optional<Holder> ChooseForStart(std::span<const Holder> holders, const Claim& claim,
                                     conf::Duration start);

}  // namespace scheduler::autoscale
