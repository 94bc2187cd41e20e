// What the parts of this room share: the time, the ledger, the launcher, the planner and the store.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>

#include "conf/time.h"
#include "gateway/control/planning.h"
#include "gateway/control/replica_keys.h"
#include "gateway/control/run_users.h"
#include "gateway/control/workload_store.h"
#include "gateway/ledger/record.h"
#include "gateway/net/task.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

struct Context {
  std::function<conf::TimePoint()> now{};
  std::function<void()> wake{};  // the loop ticks at once
  std::function<void(net::Task<void>)> spawn{};
  std::function<net::Task<absl::Status>(ledger::Event)> record{};  // on disk when it returns
  plugins::launchers::Launcher* launcher = nullptr;
  Planning* planning = nullptr;
  WorkloadStore* store = nullptr;
  const RunUsers* users = nullptr;
  const ReplicaKeys* keys = nullptr;

  const scheduler::Cluster& cluster() const { return planning->cluster(); }
};

// The name of a member's node; empty: the node is not in the cluster.
inline std::string NodeOf(const scheduler::Cluster& cluster, const scheduler::MemberAt& at) {
  const scheduler::NodeId node = at.holding.node;
  return node < cluster.nodes.size() ? cluster.nodes[node].name : std::string();
}

}  // namespace gateway::control
