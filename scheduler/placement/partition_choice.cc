#include "scheduler/placement/partition_choice.h"

#include <array>
#include <bit>
#include <compare>

namespace scheduler {
namespace {

constexpr size_t kMaxProfiles = 32;  // that count; layouts have fewer

using Weights = std::array<double, kMaxProfiles>;

Weights WeightsOf(const ScoreInput& input) {
  Weights weights{};
  bool any = false;
  for (const DemandMix::Item& item : input.mix.items) {
    const uint8_t number = ProfileOn(item.shape, input.view);
    if (number == 0 || number > kMaxProfiles) continue;
    weights[number - size_t{1}] += item.share;
    any = true;
  }
  if (!any) weights.fill(1);
  return weights;
}

double Value(const PartitionLayout& layout, const Weights& weights, uint8_t used) {
  double value = 0;
  for (size_t p = 0; p < layout.profiles.size() && p < kMaxProfiles; ++p) {
    if (weights[p] > 0) value += weights[p] * PartitionsLeft(used, layout.profiles[p]);
  }
  return value;
}

// Less is better.
struct Rank {
  bool whole = true;
  uint32_t own_lost = 0;
  double lost = 0;
  int free_slots = 0;
  auto operator<=>(const Rank&) const = default;
};

}  // namespace

DeviceChoice KindestPartition(const ScoreInput& input) {
  const PartitionLayout& layout = *input.view.layout;
  const PartitionProfile& profile = layout.profiles[ProfileOn(input.shape, input.view) - 1u];
  const Weights weights = WeightsOf(input);
  DeviceChoice best;
  Rank best_rank;
  for (size_t d = 0; d < input.state.devices; ++d) {
    const DeviceState& device = input.state.device[d];
    if (!TakesPartitions(device)) continue;
    const uint32_t own = PartitionsLeft(device.used_slots, profile);
    const double value = Value(layout, weights, device.used_slots);
    for (const uint8_t start : profile.starts) {
      const uint8_t bits = SlotBits(profile, start);
      if ((device.used_slots & bits) != 0) continue;
      const auto after = static_cast<uint8_t>(device.used_slots | bits);
      const Rank rank{device.used_slots == 0, own - PartitionsLeft(after, profile),
                      value - Value(layout, weights, after), layout.slots - std::popcount(after)};
      if (best.devices != 0 && !(rank < best_rank)) continue;
      best = {uint32_t{1} << d, start};
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace scheduler
