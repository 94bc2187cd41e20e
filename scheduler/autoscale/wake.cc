#include "scheduler/autoscale/wake.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace scheduler::autoscale {
namespace {

constexpr int kTurnOverChange = 10;
constexpr double kMoreLoad = 1.25;   // than by chance
constexpr double kPartOfWait = 0.8;  // after it a model gets a turn whatever its load

bool WaitsLong(const Claim& claim) {
  return claim.longest_wait > conf::Duration::zero() &&
         conf::ToSeconds(claim.oldest) >= kPartOfWait * conf::ToSeconds(claim.longest_wait);
}

// Loads differ by chance, so a choice that was made stands until another one is clearly better.
double LoadBeside(const Sleeper& sleeper) {
  return sleeper.waits ? sleeper.load / kMoreLoad : sleeper.load;
}

}  // namespace

std::optional<uint32_t> ChooseSleeper(std::span<const Sleeper> sleepers, const StartTimes& times) {
  const Sleeper* best = nullptr;
  const auto rank = [](const Sleeper& one) {
    return std::tuple(one.devices, LoadBeside(one), one.asleep, one.id);
  };
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
  const std::optional<Holder> elsewhere = ChooseForStart(wanted.holders, wanted.claim, wanted.start);
  const auto is_better_elsewhere = [&](const Sleeper& one) {
    if (one.id != chosen || one.devices != Sleeper::Devices::kHeldByBusy) return false;
    return wanted.times.cold || (elsewhere && (IsIdle(*elsewhere) || elsewhere->load < LoadBeside(one)));
  };
  if (std::ranges::any_of(sleepers, is_better_elsewhere)) chosen.reset();
  if (chosen) return {.kind = Kind::kWake, .sleeper = *chosen};
  const bool starts = wanted.need == Need::kNow || wanted.sleepers.empty() || wanted.times.cold;
  return {.kind = starts ? Kind::kNew : Kind::kNothing};
}

bool IsOvertaken(std::optional<uint32_t> sleeper, const StartChoice& chosen_now) {
  using Kind = StartChoice::Kind;
  if (chosen_now.kind == Kind::kWake) return sleeper != chosen_now.sleeper;
  return sleeper && chosen_now.kind == Kind::kNew;
}

bool IsIdle(const Holder& holder) {
  return holder.awake >= holder.min_awake && holder.idle > holder.change;
}

bool MakesRoom(const Holder& holder, const Claim& claim) {
  if (IsIdle(holder)) return true;
  if (holder.awake < holder.min_awake || holder.awake < kTurnOverChange * (holder.change + holder.drain))
    return false;
  return claim.is_owed || WaitsLong(claim) || claim.load > kMoreLoad * holder.load;
}

std::optional<Holder> ChooseIdle(std::span<const Holder> holders) {
  std::optional<Holder> best;
  for (const Holder& one : holders) {
    if (IsIdle(one) && (!best || one.idle > best->idle)) best = one;
  }
  return best;
}

std::optional<Holder> ChooseForStart(std::span<const Holder> holders, const Claim& claim,
                                     conf::Duration start) {
  if (const std::optional<Holder> idle = ChooseIdle(holders)) return idle;
  std::optional<Holder> best;
  for (const Holder& one : holders) {
    Holder with_start = one;
    with_start.change += start;
    Holder before_start = one;
    before_start.awake -= start;
    const bool makes_room =
        MakesRoom(with_start, claim) || (WaitsLong(claim) && MakesRoom(before_start, claim));
    if (makes_room && (!best || one.load < best->load)) best = one;
  }
  return best;
}

}  // namespace scheduler::autoscale
