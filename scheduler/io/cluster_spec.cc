#include "scheduler/io/cluster_spec.h"

#include <nlohmann/json.hpp>

#include "conf/words.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/units.h"

namespace scheduler::io {
namespace {

using conf::NotEmpty;
using conf::Range;

constexpr conf::Word<Health> kHealth[] = {{"healthy", Health::kHealthy},
                                          {"suspect", Health::kSuspect},
                                          {"draining", Health::kDraining},
                                          {"quarantined", Health::kQuarantined}};

}  // namespace

static void Bind(conf::Object& o, ProfileSpec& profile) {
  o.Required("name", profile.name, NotEmpty());
  o.Required("compute", profile.compute, Range<uint16_t>{1, 8});
  o.Required("slots", profile.slots, Range<uint16_t>{1, 8});
  o.Required("starts", profile.starts, NotEmpty());
}

static void Bind(conf::Object& o, LayoutSpec& layout) {
  o.Required("compute", layout.compute, Range<uint16_t>{1, 8});
  o.Required("slots", layout.slots, Range<uint16_t>{1, 8});
  o.Required("profiles", layout.profiles, NotEmpty());
}

static void Read(const conf::Value& value, PartitionsSpec& out) {
  if (value.kind() == conf::Kind::kMapping) {
    conf::Read(value, out.own.emplace());
  } else {
    conf::Read(value, out.known);
  }
}

static void Write(conf::Writer& writer, const PartitionsSpec& in) {
  if (in.own) {
    conf::Write(writer, *in.own);
  } else {
    conf::Write(writer, in.known);
  }
}

static void Read(const conf::Value& value, GroupsSpec& out) {
  if (value.kind() == conf::Kind::kSequence) {
    conf::Read(value, out.of);
  } else {
    conf::Read(value, out.equal);
  }
}

static void Write(conf::Writer& writer, const GroupsSpec& in) {
  if (in.of.empty()) {
    conf::Write(writer, in.equal);
  } else {
    conf::Write(writer, in.of);
  }
}

static void Bind(conf::Object& o, DeviceSpec& device) {
  o.Required("name", device.name, NotEmpty());
  o.Optional("memory", Mebibytes(device.memory_mib));
  o.Optional("idle_watts", device.idle_watts, Range{0.0, kMostWatts});
  o.Optional("busy_watts", device.busy_watts, Range{0.0, kMostWatts});
  o.Optional("partitions", device.partitions);
  if (device.busy_watts < device.idle_watts) o.Error("is below idle_watts", "busy_watts");
}

static void Bind(conf::Object& o, TypeSpec& type) {
  o.Required("name", type.name, NotEmpty());
  o.Required("cpu", Cores(type.cpu_milli));
  o.Required("memory", Mebibytes(type.memory_mib));
  o.Optional("device", type.device, NotEmpty());
  o.Optional("count", type.count, Range<uint16_t>{1, kMaxDevices});
  o.Optional("link_domain", type.link_domain);
  o.Optional("numa", type.numa);
  o.Optional("idle_watts", type.idle_watts, Range{0.0, kMostWatts});
}

static void Bind(conf::Object& o, NodeSpec& node) {
  o.Required("name", node.name, NotEmpty());
  o.Required("type", node.type, NotEmpty());
  o.Optional("domain", node.domain, NotEmpty());
  o.Optional("labels", node.labels);
  o.Optional("health", conf::Choice(node.health, "health", kHealth));
  o.Optional("power_budget_watts", node.power_budget_watts, Range{0.0, kMostWatts});
}

static void Bind(conf::Object& o, DomainSpec& domain) {
  o.Required("name", domain.name, NotEmpty());
  o.Required("level", domain.level, NotEmpty());
  o.Optional("parent", domain.parent, NotEmpty());
  o.Optional("power_budget_watts", domain.power_budget_watts, Range{0.0, kMostWatts});
}

static void Bind(conf::Object& o, FabricSpec& fabric) {
  o.Optional("levels", fabric.levels, NotEmpty());
  o.Optional("domains", fabric.domains, NotEmpty());
  o.Optional("nodes_per_leaf", fabric.nodes_per_leaf, Range<uint32_t>{1, 1'000'000});
  o.Optional("leaves_per_spine", fabric.leaves_per_spine, Range<uint32_t>{0, 1'000'000});
  o.Optional("leaf_power_budget_watts", fabric.leaf_power_budget_watts, Range{0.0, kMostWatts});
  o.Optional("spine_power_budget_watts", fabric.spine_power_budget_watts, Range{0.0, kMostWatts});
}

static void Bind(conf::Object& o, ResourceSpec& resource) {
  o.Required("name", resource.name, NotEmpty());
  o.Required("count", resource.count, conf::Range{1U, kMostOfResource});
}

void Bind(conf::Object& o, ClusterSpec& spec) {
  o.Optional("devices", spec.devices);
  o.Required("types", spec.types, NotEmpty());
  o.Optional("nodes", spec.nodes);
  o.Optional("fabric", spec.fabric);
  o.Optional("resources", spec.resources);
}

}  // namespace scheduler::io
