// The parts of a cluster: node types, nodes, devices and the fabric that joins them.
//
// Plain values, written once by a reader and then only read; what changes while jobs come and go stands
// in state/cluster_state.h. Units: CPU in milli-cores, memory in MiB, devices in thousandths of one (milli),
// power in watts. A node's place in `Cluster::nodes` is its id, a kind's in `kinds` and a domain's in
// `fabric.domains` likewise.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"

namespace scheduler {

using NodeId = uint32_t;
using KindId = uint16_t;
using TypeId = uint16_t;
using DomainId = uint32_t;

inline constexpr int kMaxDevices = 16;  // on one node
inline constexpr int kMaxKinds = 64;    // in one cluster
inline constexpr uint16_t kWholeDevice = 1000;
inline constexpr uint32_t kMostOfResource = 1'000'000;  // that a cluster has, and that a job asks for
inline constexpr uint32_t kNone = UINT32_MAX;

using Labels = std::map<std::string, std::string>;

// One way to cut a device: NVIDIA's MIG, or a vNPU template. Sizes are in slots of memory, of which a device
// has at most eight; an instance may only start where `starts` says.
struct PartitionProfile {
  std::string name{};   // "1g.10gb"
  uint8_t compute = 1;  // of the layout's compute slices: what it counts for in allocation
  uint8_t slots = 1;
  std::vector<uint8_t> starts{};
};

struct PartitionLayout {
  std::string name{};   // "a100-80gb"
  uint8_t compute = 7;  // slices of a whole device
  uint8_t slots = 8;
  std::vector<PartitionProfile> profiles{};
};

// A model of GPU or NPU.
struct DeviceKind {
  std::string name{};      // "h100", "ascend-910b"
  int64_t memory_mib = 0;  // 0: not known, and not counted
  double idle_watts = 0;
  double busy_watts = 0;
  uint32_t layout = kNone;  // index into Cluster::layouts: how it can be cut
};

// Defined once and named by many nodes. A node without devices has `devices` 0.
struct NodeType {
  std::string name{};
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  KindId kind = 0;  // of all its devices
  uint8_t devices = 0;
  // Per device; empty: one domain. Devices of one link domain reach each other over NVLink or HCCS.
  std::vector<uint8_t> link_domain{};
  std::vector<uint8_t> numa{};
  double idle_watts = 0;  // of the node without its devices

  // Whether it matters which of its free devices are taken together.
  bool has_topology() const;
};

// Of a node, besides its devices.
struct HostAmounts {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;

  friend bool operator==(const HostAmounts&, const HostAmounts&) = default;
};

enum class Health : uint8_t { kHealthy, kSuspect, kDraining, kQuarantined };

struct Node {
  std::string name{};
  TypeId type = 0;
  DomainId domain = 0;  // the lowest one that holds it, usually a leaf switch
  Labels labels{};      // zone, residency, spot, … ; "tenant" binds the node to one tenant
  Health health = Health::kHealthy;
  double power_budget_watts = 0;  // 0: none
};

// A switch group. Level 0 is the nearest to the nodes ("leaf"); the last level has the one root.
struct Domain {
  std::string name{};
  uint8_t level = 0;
  DomainId parent = kNone;        // kNone: the root
  double power_budget_watts = 0;  // 0: none; of all below it
};

struct Fabric {
  std::vector<std::string> levels{};  // from the nodes upwards: {"leaf", "spine", "cluster"}
  std::vector<Domain> domains{};      // parents have larger levels than their children
};

// Licences and the like: the cluster has so many, wherever their holders run.
struct Resource {
  std::string name{};
  uint32_t count = 0;
};

struct Cluster {
  std::vector<PartitionLayout> layouts{};
  std::vector<DeviceKind> kinds{};
  std::vector<NodeType> types{};
  std::vector<Node> nodes{};
  Fabric fabric{};
  std::vector<Resource> resources{};

  const NodeType& type_of(NodeId node) const { return types[nodes[node].type]; }
};

// The words of Health, as configuration and reports write them.
conf::Words<Health> WordsOf(Health);
std::string_view Name(Health health);

// The first defect of a cluster that a program built (readers report theirs earlier, with lines): an
// index out of range, too many devices or kinds, a level that does not rise towards the root. Empty: nothing.
std::string FirstDefect(const Cluster& cluster);

// The whole devices of a kind on all nodes, whatever their health.
uint64_t DevicesOf(const Cluster& cluster, std::string_view kind);

// One fabric domain over all nodes, for clusters whose fabric is not described.
Fabric FlatFabric();

// Leaf groups of `nodes_per_leaf` nodes in their order, under one root; `leaves_per_spine` above 0 puts
// spines between. Sets every node's domain.
void GroupIntoLeaves(Cluster& cluster, int nodes_per_leaf, int leaves_per_spine = 0);

}  // namespace scheduler
