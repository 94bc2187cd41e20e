// `scale` of a policy: the object of Kubernetes whose number of replicas the policy decides. The cluster places them;
// they come to the model by its discovered endpoints.
#pragma once

#include <string>

#include "conf/time.h"
#include "plugins/kubernetes/scale.h"

namespace conf {
class Object;
}

namespace gateway::config {

struct ScaleTarget {
  plugins::kubernetes::Scalable kind = plugins::kubernetes::Scalable::kDeployment;
  std::string name;
  std::string name_space;                          // empty: that of section `kubernetes`
  conf::Duration hold = std::chrono::minutes(10);  // how long somebody else's change stays
  std::string preset;  // estimates a replica's capacity until that is measured (scheduler/engine/presets.h)

  friend bool operator==(const ScaleTarget&, const ScaleTarget&) = default;
};

void Bind(conf::Object& object, ScaleTarget& out);

}  // namespace gateway::config
