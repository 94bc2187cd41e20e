#include "plugins/weights/store_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace plugins::weights {
namespace {

// 0: nothing is missing.
uint64_t MissingBytes(uint64_t wanted, uint64_t there) {
  return wanted > there ? wanted - there : 0;
}

}  // namespace

std::string InBytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Eviction PlanEviction(std::vector<StoreEntry> entries, const RoomNeed& need) {
  uint64_t taken = 0;
  for (const StoreEntry& entry : entries) taken += entry.bytes;
  const uint64_t over = need.limit == 0 ? 0 : MissingBytes(taken + need.bytes, need.limit);
  const uint64_t wanted = std::max(over, MissingBytes(need.bytes, need.free));
  Eviction out;
  if (wanted == 0) return out;
  std::erase_if(entries, [&](const StoreEntry& entry) {
    return entry.held || entry.pinned || need.now - entry.used < kJustUsed;
  });
  // Incomplete entries come first: no replica can use them yet.
  std::ranges::sort(entries, [](const StoreEntry& a, const StoreEntry& b) {
    return std::tie(a.complete, a.used, a.id) < std::tie(b.complete, b.used, b.id);
  });
  for (const StoreEntry& entry : entries) {
    if (out.bytes >= wanted) break;
    out.ids.push_back(entry.id);
    out.bytes += entry.bytes;
  }
  if (out.bytes >= wanted) return out;
  const uint64_t kept = taken - out.bytes;
  if (need.limit != 0 && over >= MissingBytes(need.bytes, need.free)) {
    out.why = fmt::format(
        "{} are needed, and the store may hold {}, of which {} are in use by running replicas, pinned or "
        "just "
        "used. Raise scaling.weights.size, or end replicas of other models on this node",
        InBytes(need.bytes), InBytes(need.limit), InBytes(kept));
  } else {
    out.why = fmt::format(
        "{} are needed, and the store's disk has {} free; {} could be given back by weights that no replica "
        "uses. Free room on that disk, or give the store a larger one",
        InBytes(need.bytes), InBytes(need.free), InBytes(out.bytes));
  }
  out.ids.clear();
  out.bytes = 0;
  return out;
}

}  // namespace plugins::weights
