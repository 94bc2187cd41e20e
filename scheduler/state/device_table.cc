#include "scheduler/state/device_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

namespace scheduler {
namespace {

constexpr uint32_t kOtherNuma = 1;
constexpr uint32_t kOtherLink = 2;

bool Same(const std::vector<uint8_t>& domains, size_t a, size_t b) {
  return domains.empty() || domains[a] == domains[b];
}

size_t FirstOf(uint32_t devices) {
  return static_cast<size_t>(std::countr_zero(devices));
}

uint32_t InDomainOf(const std::vector<uint8_t>& domains, uint32_t devices, size_t device) {
  uint32_t in = 0;
  for (uint32_t left = devices; left != 0; left &= left - 1) {
    if (Same(domains, FirstOf(left), device)) in |= left & -left;
  }
  return in;
}

// The smallest group of `domains` that holds `count`, else the largest; the lowest among equal ones.
uint32_t Group(const std::vector<uint8_t>& domains, uint32_t devices, int count) {
  uint32_t best = 0;
  for (uint32_t left = devices; left != 0;) {
    const uint32_t group = InDomainOf(domains, left, FirstOf(left));
    left &= ~group;
    const int size = std::popcount(group);
    const int best_size = std::popcount(best);
    const bool smaller = size >= count && (best_size < count || size < best_size);
    if (smaller || (size > best_size && best_size < count)) best = group;
  }
  return best;
}

uint32_t Lowest(uint32_t devices, int count) {
  uint32_t taken = 0;
  for (; count > 0 && devices != 0; --count) {
    taken |= devices & -devices;
    devices &= devices - 1;
  }
  return taken;
}

}  // namespace

DeviceTable::DeviceTable(const NodeType& type) : type_(&type) {
  if (type.devices <= kLargest && type.has_topology()) Fill();
}

uint32_t DeviceTable::Distance(size_t a, size_t b) const {
  return (Same(type_->link_domain, a, b) ? 0 : kOtherLink) + (Same(type_->numa, a, b) ? 0 : kOtherNuma);
}

void DeviceTable::Fill() {
  const uint32_t masks = uint32_t{1} << type_->devices;
  struct Set {
    uint32_t farthest = 0;
    uint32_t distance = 0;  // of all pairs
    uint32_t near = 0;      // how near all its pairs are
  };
  std::array<Set, size_t{1} << kLargest> sets{};
  for (uint32_t mask = 1; mask < masks; ++mask) {
    const size_t first = FirstOf(mask);
    const uint32_t rest = mask & (mask - 1);
    Set set = sets[rest];
    for (uint32_t left = rest; left != 0; left &= left - 1) {
      const uint32_t distance = Distance(first, FirstOf(left));
      set.farthest = std::max(set.farthest, distance);
      set.distance += distance;
      set.near += kOtherLink + kOtherNuma - distance;
    }
    sets[mask] = set;
  }
  nearest_.assign(masks * kWidth, 0);
  for (uint32_t free = 1; free < masks; ++free) {
    const auto rank = [&](uint32_t taken) {
      const uint32_t left_near = sets[free & ~taken].near;
      return std::tuple(sets[taken].farthest, sets[taken].distance, UINT32_MAX - left_near, taken);
    };
    for (uint32_t taken = free; taken != 0; taken = (taken - 1) & free) {
      uint8_t& best = nearest_[free * kWidth + static_cast<size_t>(std::popcount(taken))];
      if (best == 0 || rank(taken) < rank(best)) best = static_cast<uint8_t>(taken);
    }
  }
}

uint32_t DeviceTable::Nearest(uint32_t free, int count) const {
  if (!nearest_.empty()) return nearest_[free * kWidth + static_cast<size_t>(count)];
  return type_->has_topology() ? GroupByGroup(free, count) : Lowest(free, count);
}

uint32_t DeviceTable::GroupByGroup(uint32_t free, int count) const {
  uint32_t taken = 0;
  while (count > 0) {
    const uint32_t linked = Group(type_->link_domain, free, count);
    const int from_link = std::min(count, std::popcount(linked));
    for (int left = from_link; left > 0;) {
      const uint32_t near = Lowest(Group(type_->numa, linked & ~taken, left), left);
      taken |= near;
      left -= std::popcount(near);
    }
    free &= ~linked;
    count -= from_link;
  }
  return taken;
}

bool DeviceTable::Linked(uint32_t devices) const {
  return devices == 0 || InDomainOf(type_->link_domain, devices, FirstOf(devices)) == devices;
}

}  // namespace scheduler
