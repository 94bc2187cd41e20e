#include "scheduler/state/partitions.h"

#include <fmt/format.h>

#include <algorithm>

namespace scheduler {
namespace {

// The geometry is the same for every GPU of seven slices; only the memory in the names differs. `small`,
// `twice`, `half` and `whole` are what one slice, two slices, half a device and a device have, in GB.
PartitionLayout SevenSlices(std::string_view name, int small, int twice, int half, int whole) {
  return {.name = std::string(name),
          .compute = 7,
          .slots = 8,
          .profiles = {{fmt::format("1g.{}gb", small), 1, 1, {0, 1, 2, 3, 4, 5, 6}},
                       {fmt::format("1g.{}gb", twice), 1, 2, {0, 2, 4, 6}},
                       {fmt::format("2g.{}gb", twice), 2, 2, {0, 2, 4}},
                       {fmt::format("3g.{}gb", half), 3, 4, {0, 4}},
                       {fmt::format("4g.{}gb", half), 4, 4, {0}},
                       {fmt::format("7g.{}gb", whole), 7, 8, {0}}}};
}

const std::vector<PartitionLayout>& KnownLayouts() {
  static const std::vector<PartitionLayout> layouts = {
      {.name = "mig-a30-24gb",
       .compute = 4,
       .slots = 4,
       .profiles = {{"1g.6gb", 1, 1, {0, 1, 2, 3}}, {"2g.12gb", 2, 2, {0, 2}}, {"4g.24gb", 4, 4, {0}}}},
      SevenSlices("mig-a100-40gb", 5, 10, 20, 40),
      SevenSlices("mig-a100-80gb", 10, 20, 40, 80),
      SevenSlices("mig-h100-80gb", 10, 20, 40, 80),
      SevenSlices("mig-h100-96gb", 12, 24, 48, 96),
      SevenSlices("mig-h200-141gb", 18, 35, 71, 141),
      SevenSlices("mig-b200-180gb", 23, 45, 90, 180),
      {.name = "vnpu-310p",
       .compute = 8,
       .slots = 8,
       .profiles = {{"vir01", 1, 1, {0, 1, 2, 3, 4, 5, 6, 7}},
                    {"vir02", 2, 2, {0, 2, 4, 6}},
                    {"vir04", 4, 4, {0, 4}}}}};
  return layouts;
}

}  // namespace

std::vector<std::string_view> KnownLayoutNames() {
  std::vector<std::string_view> names;
  for (const PartitionLayout& layout : KnownLayouts()) names.push_back(layout.name);
  return names;
}

const PartitionLayout* FindKnownLayout(std::string_view name) {
  const auto at = std::ranges::find(KnownLayouts(), name, &PartitionLayout::name);
  return at == KnownLayouts().end() ? nullptr : &*at;
}

}  // namespace scheduler
