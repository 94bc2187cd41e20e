// Section `scaling.kubernetes`: how runs become pods; and pieces of PodSpec, as a replica or job gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/kubernetes/cluster.h"
#include "plugins/launchers/kubernetes/discovery.h"
#include "plugins/launchers/kubernetes/manifest.h"

namespace conf {
class Object;
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

// A piece of Kubernetes' PodSpec. What Tidegate itself sets is refused when it is read.
struct PodPiece {
  std::string json;  // empty: none is given

  bool empty() const { return json.empty(); }
};
void Read(const conf::Value& value, PodPiece& out);
void Write(conf::Writer& writer, const PodPiece& in);

// What the `pod` of a tenant's job may have.
enum class TenantPods : uint8_t {
  kSafe,  // nothing by which it reaches what belongs to others
  kAny,
};

// How the planner's cluster is made of the nodes that Kubernetes has, where no file lists them.
struct FoundNodes {
  std::string selector;  // of labels; empty: all nodes
  plugins::launchers::kubernetes::Discovery how;
};
void Bind(conf::Object& object, FoundNodes& out);

struct Pods {
  std::string name;  // of this gateway's runs; gateways that share a state have the same
  plugins::launchers::kubernetes::Binding bind = plugins::launchers::kubernetes::Binding::kAffinity;
  std::vector<plugins::launchers::kubernetes::DeviceResource> devices;  // before the built-in ones
  std::optional<FoundNodes> nodes;                                      // with a cluster file: absent
  conf::Duration start_within = std::chrono::minutes(2);
  conf::Duration lost_after = std::chrono::minutes(1);
  std::string image_pull_policy;
  std::vector<std::string> image_pull_secrets;
  TenantPods tenant_pods = TenantPods::kSafe;
  PodPiece pod;  // of every pod, before the run's own
};

void Bind(conf::Object& object, Pods& out);

}  // namespace gateway::config
