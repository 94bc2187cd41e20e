#include "scheduler/state/node_classes.h"

#include <algorithm>
#include <cstring>

namespace scheduler {
namespace {

static_assert(sizeof(DeviceState) == 8);

uint64_t Mix(uint64_t hash, uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{hash ^ word} * 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t Word(const DeviceState& device) {
  uint64_t word;
  std::memcpy(&word, &device, sizeof word);
  return word;
}

uint64_t HashOf(const NodeClass& wanted) {
  const NodeState& state = wanted.state;
  uint64_t hash = Mix(0x2545f4914f6cdd1d, uint64_t{wanted.fixed} << 32 | wanted.type);
  hash = Mix(hash, static_cast<uint64_t>(state.free_cpu_milli));
  hash = Mix(hash, static_cast<uint64_t>(state.free_memory_mib));
  hash =
      Mix(hash, uint64_t{state.tenant} << 32 | static_cast<uint64_t>(state.isolation) << 16 | state.members);
  if (state.sizes != 0) hash = Mix(hash, state.sizes);
  for (size_t d = 0; d < state.devices; ++d) hash = Mix(hash, Word(state.device[d]));
  return hash;
}

// Devices of equal properties are ordered by their free amounts.
void Canonicalize(NodeState& state) {
  const auto end = state.device.begin() + state.devices;
  if (std::equal(state.device.begin() + 1, std::max(end, state.device.begin() + 1), state.device.begin()))
    return;
  std::sort(state.device.begin(), end,
            [](const DeviceState& a, const DeviceState& b) { return Word(a) < Word(b); });
  state.whole = 0;
  for (uint32_t d = 0; d < state.devices; ++d) {
    const DeviceState& device = state.device[d];
    if (device.healthy && device.free_milli == kWholeDevice) state.whole |= uint32_t{1} << d;
  }
}

constexpr size_t kRemembered = 4096;  // empty classes beyond the live ones

}  // namespace

size_t NodeClasses::Hash::operator()(ClassId id) const {
  return HashOf((*classes)[id]);
}
size_t NodeClasses::Hash::operator()(const NodeClass& wanted) const {
  return HashOf(wanted);
}

bool NodeClasses::Equal::operator()(ClassId a, const NodeClass& b) const {
  const NodeClass& have = (*classes)[a];
  return have.fixed == b.fixed && have.type == b.type && have.state == b.state;
}

NodeClasses::NodeClasses(size_t nodes) : ids_(0, Hash{&classes_}, Equal{&classes_}), of_(nodes, kNone) {}

void NodeClasses::Move(NodeId node, StaticId fixed, TypeId type, const NodeState& state, bool ordered) {
  wanted_.fixed = fixed;
  wanted_.type = type;
  wanted_.state = state;
  wanted_.state.members = std::min<uint16_t>(state.members, 1);
  if (!ordered) Canonicalize(wanted_.state);

  const ClassId from = of_[node];
  if (from != kNone) {
    std::vector<NodeId>& nodes = classes_[from].nodes;
    nodes.erase(std::ranges::lower_bound(nodes, node));
    if (nodes.empty()) {
      const uint32_t at = live_at_[from];
      live_[at] = live_.back();
      live_at_[live_[at]] = at;
      live_.pop_back();
    }
  }
  const ClassId to = Intern();
  std::vector<NodeId>& nodes = classes_[to].nodes;
  if (nodes.empty()) {
    live_at_[to] = static_cast<uint32_t>(live_.size());
    live_.push_back(to);
  }
  nodes.insert(std::ranges::lower_bound(nodes, node), node);
  of_[node] = to;
}

ClassId NodeClasses::Intern() {
  if (const auto found = ids_.find(wanted_); found != ids_.end()) return *found;
  if (unused_.empty() && classes_.size() >= 2 * live_.size() + kRemembered) ForgetEmpty();
  ClassId id;
  if (unused_.empty()) {
    id = static_cast<ClassId>(classes_.size());
    classes_.emplace_back();
    generation_.push_back(0);
    live_at_.push_back(0);
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  NodeClass& fresh = classes_[id];
  fresh.fixed = wanted_.fixed;
  fresh.type = wanted_.type;
  fresh.state = wanted_.state;
  ++generation_[id];
  ids_.insert(id);
  return id;
}

void NodeClasses::ForgetEmpty() {
  for (ClassId id = 0; id < classes_.size(); ++id) {
    if (!classes_[id].nodes.empty()) continue;
    ids_.erase(id);
    unused_.push_back(id);
  }
}

}  // namespace scheduler
