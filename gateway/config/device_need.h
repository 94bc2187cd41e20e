// The devices that one replica, or one member of a job, needs: whole ones of one node, a share of one, or a
// partition of one that is cut.
//
// Plain value.
#pragma once

#include "scheduler/work.h"

namespace conf {
class Object;
}

namespace gateway::config {

// As {kind: h100, count: 2}, {share: 0.5} or {kind: a100, profile: 1g.10gb}.
struct DeviceNeed {
  scheduler::DeviceAsk ask;
};
void Bind(conf::Object& object, DeviceNeed& out);

}  // namespace gateway::config
