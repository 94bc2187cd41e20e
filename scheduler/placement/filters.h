// Hard constraints of every placement: kind, labels, health, isolation, room and power. Named free functions
// over plain values.
#pragma once

#include "scheduler/state/cluster_state.h"

namespace scheduler {

bool KindAllows(const Shape& shape, const FixedClass& fixed, const TypeView& view);
bool LabelsAllow(const Shape& shape, const FixedClass& fixed);  // require and avoid
bool TakesWork(const FixedClass& fixed);                        // healthy
bool HasRoom(const Shape& shape, const NodeState& state,
             const TypeView& view);  // CPU, memory, devices, isolation

// How many of the shape's preferences such nodes satisfy.
int16_t PreferencesHeld(const Shape& shape, const FixedClass& fixed);

// The most watts that one member adds on such a node.
double WattsAdded(const Shape& shape, const TypeView& view, const ClusterState& state);

// The name of the first filter that excludes the node ("kind", "labels", "health", "isolation", "cpu",
// "memory", "devices", "power"), or empty.
std::string_view FirstObstacle(const Shape& shape, const ClusterState& state, NodeId node);

}  // namespace scheduler
