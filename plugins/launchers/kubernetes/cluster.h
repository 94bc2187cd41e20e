// The nodes of a Kubernetes as the planner sees them: health, devices, and the amounts that other users' pods
// hold. Pure.
//
// A row of the configuration maps a resource to a kind of device. Without a row, a built-in resource means the kind
// that the cluster file gives to the node.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/launcher.h"

namespace plugins::launchers::kubernetes {

struct DeviceResource {
  std::string resource{};  // "nvidia.com/gpu"
  std::string kind{};      // "h100"; empty: that of the node
  std::string label{};     // of the nodes to which this applies; empty: all
  std::string value{};     // of that label
};

// The devices that a node should have, by the planner's cluster.
struct Expected {
  std::string kind{};
  uint32_t devices = 0;
};

// By the name of the node.
using ExpectedNodes = std::map<std::string, Expected>;
ExpectedNodes ExpectedOf(const scheduler::Cluster& cluster);

inline constexpr std::string_view kMigPrefix = "nvidia.com/mig-";

// The amounts of a node that pods hold.
struct Taken {
  uint32_t devices = 0;                         // whole ones, whatever their kind
  std::map<std::string, uint32_t> instances{};  // of MIG, by resource
  scheduler::HostAmounts host{};

  bool none() const { return *this == Taken(); }
  void Add(const Taken& other);
  void Remove(const Taken& other);  // one that was added before
  friend bool operator==(const Taken&, const Taken&) = default;
};

class DeviceTable {
 public:
  // `rows` before the built-in ones.
  explicit DeviceTable(std::vector<DeviceResource> rows);

  // The resource whose whole devices have that kind on that node; empty: it has none.
  std::string ResourceOf(const Node& node, const std::string& kind) const;
  // The first row whose devices the node has; null: it has no whole devices.
  const DeviceResource* RowOf(const Node& node) const;
  // The amounts that a pod takes of its node.
  Taken TakenBy(const Pod& pod) const;

 private:
  std::vector<DeviceResource> rows_;
};

// A rule of PodSpec's `tolerations`.
struct Toleration {
  std::string key{};  // empty: any, where `exists`
  std::string value{};
  bool exists = false;   // whatever the taint's value is
  std::string effect{};  // empty: any
};
// Rules of an operator that is not known tolerate nothing, and are left out.
std::vector<Toleration> TolerationsOf(const nlohmann::json& piece);

// Not ready is quarantined; cordoned, and with a taint that is not tolerated, is draining.
scheduler::Health HealthOf(const Node& node, const std::vector<Toleration>& tolerated);
// A sentence; empty: it is healthy.
std::string WhyNot(const Node& node, const std::vector<Toleration>& tolerated);

// The nodes that the planner knows. `taken`: what others hold, by node. Where all devices are cut, MIG
// instances count as the devices that they fill; elsewhere a device that is cut is none of those planned.
SharedCluster Share(const std::map<std::string, Node>& nodes, const std::map<std::string, Taken>& taken,
                    const ExpectedNodes& expected, const DeviceTable& table,
                    const std::vector<Toleration>& tolerated);

}  // namespace plugins::launchers::kubernetes
