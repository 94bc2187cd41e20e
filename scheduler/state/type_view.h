// A node type together with its partition layout, and the needs of a shape on such nodes.
#pragma once

#include <cstdint>

#include "scheduler/model.h"
#include "scheduler/shape.h"
#include "scheduler/state/device_table.h"

namespace scheduler {

// Points into the cluster; `near` into the ClusterState that gave the view, null without one.
struct TypeView {
  const NodeType* type = nullptr;
  const PartitionLayout* layout = nullptr;  // null: its devices cannot be cut
  uint32_t layout_index = kNone;
  const DeviceTable* near = nullptr;
};

TypeView ViewOf(const Cluster& cluster, TypeId type);

// 1 + the index of the shape's partition profile on such nodes; 0: they have none of this name.
inline uint8_t ProfileOn(const Shape& shape, const TypeView& view) {
  return view.layout == nullptr || !shape.is_partition() ? uint8_t{0} : shape.profile[view.layout_index];
}

// The size of a member of the shape on such a node, in milli.
int64_t DeviceMilli(const Shape& shape, const TypeView& view);

}  // namespace scheduler
