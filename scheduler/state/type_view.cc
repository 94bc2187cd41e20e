#include "scheduler/state/type_view.h"

namespace scheduler {

TypeView ViewOf(const Cluster& cluster, TypeId id) {
  const NodeType& type = cluster.types[id];
  const uint32_t layout = type.devices == 0 ? kNone : cluster.kinds[type.kind].layout;
  return {&type, layout == kNone ? nullptr : &cluster.layouts[layout], layout};
}

int64_t DeviceMilli(const Shape& shape, const TypeView& view) {
  if (shape.count > 0) return int64_t{shape.count} * kWholeDevice;
  if (!shape.is_partition()) return shape.milli;
  const uint8_t number = ProfileOn(shape, view);
  if (number == 0) return 0;
  return int64_t{view.layout->profiles[number - 1].compute} * kWholeDevice / view.layout->compute;
}

}  // namespace scheduler
