#include "scheduler/autoscale/wake.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace scheduler::autoscale {
namespace {

constexpr int kTurnOverChange = 10;

}  // namespace

std::optional<uint32_t> ChooseSleeper(std::span<const Sleeper> sleepers, const StartTimes& times) {
  const Sleeper* best = nullptr;
  const auto rank = [](const Sleeper& one) { return std::tuple(one.devices, one.asleep, one.id); };
  for (const Sleeper& one : sleepers) {
    if (one.devices == Sleeper::Devices::kHeldForLong) continue;
    if (best == nullptr || rank(one) < rank(*best)) best = &one;
  }
  if (best == nullptr) return std::nullopt;
  const conf::Duration room = best->devices == Sleeper::Devices::kFree ? conf::Duration::zero() : times.room;
  if (times.cold && *times.cold > conf::Duration::zero() && *times.cold < times.wake + room)
    return std::nullopt;
  return best->id;
}

StartChoice ChooseStart(const OneMore& wanted) {
  using Kind = StartChoice::Kind;
  if (wanted.falls_asleep) return {};
  std::vector<Sleeper> sleepers(wanted.sleepers.begin(), wanted.sleepers.end());
  if (wanted.need == Need::kForeseen) {
    if (wanted.others_wait) return {};
    std::erase_if(sleepers, [](const Sleeper& one) { return one.devices != Sleeper::Devices::kFree; });
  }
  std::optional<uint32_t> chosen = ChooseSleeper(sleepers, wanted.times);
  const auto is_contested = [&](const Sleeper& one) {
    return one.id == chosen && one.devices == Sleeper::Devices::kHeldByBusy;
  };
  const bool elsewhere = wanted.idle_elsewhere || wanted.times.cold;
  if (elsewhere && std::ranges::any_of(sleepers, is_contested)) chosen.reset();
  if (chosen) return {.kind = Kind::kWake, .sleeper = *chosen};
  const bool starts = wanted.need == Need::kNow || wanted.sleepers.empty() || wanted.times.cold;
  return {.kind = starts ? Kind::kNew : Kind::kNothing};
}

bool IsIdle(const Holder& holder) {
  return holder.awake >= holder.min_awake && holder.idle > holder.change;
}

bool MakesRoom(const Holder& holder) {
  return IsIdle(holder) || (holder.awake >= holder.min_awake &&
                            holder.awake >= kTurnOverChange * (holder.change + holder.drain));
}

std::optional<uint32_t> ChooseIdle(std::span<const Holder> holders) {
  const Holder* best = nullptr;
  for (const Holder& one : holders) {
    if (IsIdle(one) && (best == nullptr || one.idle > best->idle)) best = &one;
  }
  return best == nullptr ? std::nullopt : std::optional(best->id);
}

std::optional<uint32_t> ChooseForStart(std::span<const Holder> holders, conf::Duration start) {
  if (const std::optional<uint32_t> idle = ChooseIdle(holders)) return idle;
  const Holder* best = nullptr;
  for (const Holder& one : holders) {
    Holder with_start = one;
    with_start.change += start;
    if (MakesRoom(with_start) && (best == nullptr || one.awake > best->awake)) best = &one;
  }
  return best == nullptr ? std::nullopt : std::optional(best->id);
}

}  // namespace scheduler::autoscale
