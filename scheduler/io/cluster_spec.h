// A cluster file as it is written, before its names are resolved. Inside scheduler/io only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conf/document.h"
#include "conf/reader.h"
#include "scheduler/model.h"

namespace scheduler::io {

struct ProfileSpec {
  std::string name;
  uint16_t compute = 1;
  uint16_t slots = 1;
  std::vector<uint16_t> starts;
};

struct LayoutSpec {
  uint16_t compute = 0;
  uint16_t slots = 0;
  std::vector<ProfileSpec> profiles;
};

// `partitions: mig-h100-80gb`, or a mapping that describes its own.
struct PartitionsSpec {
  std::string known;
  std::optional<LayoutSpec> own;
};

// `numa: 2`, the number of groups of equal size, or `numa: [0, 0, 1, 1]`, one for each device.
struct GroupsSpec {
  uint16_t equal = 1;
  std::vector<uint16_t> of;
};

struct DeviceSpec {
  std::string name;
  int64_t memory_mib = 0;
  double idle_watts = 0;
  double busy_watts = 0;
  PartitionsSpec partitions;
};

struct TypeSpec {
  std::string name;
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  std::string device;
  uint16_t count = 0;
  GroupsSpec link_domain;
  GroupsSpec numa;
  double idle_watts = 0;
};

struct NodeSpec {
  std::string name;  // a pattern
  std::string type;
  std::string domain;  // a pattern
  Labels labels;
  Health health = Health::kHealthy;
  double power_budget_watts = 0;
};

struct DomainSpec {
  std::string name;  // a pattern
  std::string level;
  std::string parent;  // a pattern
  double power_budget_watts = 0;
};

struct FabricSpec {
  std::vector<std::string> levels;
  std::vector<DomainSpec> domains;
  uint32_t nodes_per_leaf = 0;
  uint32_t leaves_per_spine = 0;
  double leaf_power_budget_watts = 0;
  double spine_power_budget_watts = 0;
};

struct ResourceSpec {
  std::string name;
  uint32_t count = 0;
};

struct ClusterSpec {
  std::vector<DeviceSpec> devices;
  std::vector<TypeSpec> types;
  std::vector<NodeSpec> nodes;
  FabricSpec fabric;
  std::vector<ResourceSpec> resources;
};

void Bind(conf::Object& o, ClusterSpec& spec);

// Reports names that do not exist or are given twice, and impossible values, to the document.
void CheckCluster(conf::Document& document, const ClusterSpec& spec);

}  // namespace scheduler::io
