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

enum class Need : uint8_t {
  kNow,       // requests wait, or an operator or the policy's floor wants it
  kForeseen,  // others keep the devices that they have
};

// One more replica of a model is wanted.
struct OneMore {
  std::span<const Sleeper> sleepers{};  // of the model, without those that are to wake already
  StartTimes times{};
  Need need = Need::kNow;
  bool falls_asleep = false;    // a replica of the model is falling asleep, and can wake in a moment
  bool others_wait = false;     // replicas, of any model, wait for devices
  bool idle_elsewhere = false;  // a replica of another model that is not needed holds devices that suit
};

struct StartChoice {
  enum class Kind : uint8_t { kNothing, kWake, kNew };
  Kind kind = Kind::kNothing;
  uint32_t sleeper = 0;  // to wake
};

// Beside a busy model a sleeper would only take turns while devices elsewhere are free or held by an idle replica. So a
// new replica is started there: a second place to wake at.
StartChoice ChooseStart(const OneMore& wanted);

// A replica that holds devices on which another one slept that is wanted again.
struct Holder {
  uint32_t id = 0;
  conf::Duration awake{};  // since it was ready
  conf::Duration idle{};   // since it or its queue had a request
  conf::Duration min_awake{};
  conf::Duration change{};  // one falls asleep and the other wakes, as measured
  conf::Duration drain{};   // until the last request of a busy one has ended, likewise
};

// Whether it is not needed: it had no request for as long as the change takes, so that a change that turns out to
// be wrong costs at most as much again.
bool IsIdle(const Holder& holder);

// Whether it makes room now. Idle: after min_awake. Busy: once it was awake for ten times what the change costs, the
// drain included, so that models that are all busy lose a tenth of the devices' time at most.
bool MakesRoom(const Holder& holder);

// Of holders that suit, the one that is not needed for the longest; nothing: all are needed.
std::optional<uint32_t> ChooseIdle(std::span<const Holder> holders);

// Which of the holders makes room for a new replica that has found no devices and takes `start` to serve: the one that
// is not needed for the longest; else, of those whose turn is over, the start counted as a part of the change, the one
// that is awake for the longest. Without turns a model that never ran would wait until another one has no requests.
std::optional<uint32_t> ChooseForStart(std::span<const Holder> holders, conf::Duration start);

}  // namespace scheduler::autoscale
