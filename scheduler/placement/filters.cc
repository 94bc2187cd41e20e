#include "scheduler/placement/filters.h"

#include <algorithm>

namespace scheduler {
namespace {

bool Holds(const LabelRule& rule, const Labels& labels) {
  const auto at = labels.find(rule.key);
  const std::string_view value = at == labels.end() ? std::string_view() : std::string_view(at->second);
  return std::ranges::find(rule.values, value) != rule.values.end();
}

}  // namespace

bool KindAllows(const Shape& shape, const FixedClass&, const TypeView& view) {
  if (!shape.needs_device()) return true;
  if (view.type->devices == 0 || (shape.kinds >> view.type->kind & 1) == 0) return false;
  return !shape.is_partition() || ProfileOn(shape, view) != 0;
}

bool LabelsAllow(const Shape& shape, const FixedClass& fixed) {
  const auto holds = [&](const LabelRule& rule) { return Holds(rule, *fixed.labels); };
  return std::ranges::all_of(shape.require, holds) && std::ranges::none_of(shape.avoid, holds);
}

bool TakesWork(const FixedClass& fixed) {
  return fixed.schedulable;
}

bool HasRoom(const Shape& shape, const NodeState& state, const TypeView& view) {
  return Fits(state, shape, view);
}

int16_t PreferencesHeld(const Shape& shape, const FixedClass& fixed) {
  return static_cast<int16_t>(
      std::ranges::count_if(shape.prefer, [&](const LabelRule& rule) { return Holds(rule, *fixed.labels); }));
}

double WattsAdded(const Shape& shape, const TypeView& view, const ClusterState& state) {
  if (!shape.needs_device()) return 0;
  const KindWatts watts = state.kind_watts(view.type->kind);
  return std::max<int>(shape.count, 1) * (watts.busy - watts.idle);
}

std::string_view FirstObstacle(const Shape& shape, const ClusterState& state, NodeId node) {
  const FixedClass& fixed = state.fixed(state.classes()[state.classes().of(node)].fixed);
  const TypeView& view = state.view_of(node);
  const NodeState& now = state.node(node);
  if (!KindAllows(shape, fixed, view)) return "kind";
  if (!LabelsAllow(shape, fixed)) return "labels";
  if (!TakesWork(fixed)) return "health";
  if (shape.cpu_milli > now.free_cpu_milli) return "cpu";
  if (shape.memory_mib > now.free_memory_mib) return "memory";
  if (!HasRoom(shape, now, view)) {
    NodeState alone = now;
    alone.members = 0;
    alone.isolation = Isolation::kNone;
    return HasRoom(shape, alone, view) ? "isolation" : "devices";
  }
  if (state.has_power_budgets() && WattsAdded(shape, view, state) > state.power_headroom(node))
    return "power";
  return {};
}

}  // namespace scheduler
