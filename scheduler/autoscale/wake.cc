#include "scheduler/autoscale/wake.h"

#include <algorithm>
#include <tuple>

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

bool IsIdle(const Holder& holder) {
  return holder.awake >= holder.min_awake && holder.idle > holder.change;
}

bool MakesRoom(const Holder& holder) {
  return IsIdle(holder) ||
         (holder.awake >= holder.min_awake && holder.awake >= kTurnOverChange * holder.change);
}

}  // namespace scheduler::autoscale
