// Context: shared by the parts of this room: the time, the ledger, the launcher, the planner and the store.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>

#include "conf/time.h"
#include "gateway/control/launching/replica_keys.h"
#include "gateway/control/launching/run_users.h"
#include "gateway/control/planning/planning.h"
#include "gateway/control/workloads/workload_store.h"
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
  // The epoch of the term, for launches; 0: not known, as this gateway has its store to itself.
  uint64_t epoch = 0;
  // Whether this gateway may still start and stop workloads, by its own clock.
  std::function<bool()> leads = [] { return true; };
  // OK: it may, and the store has confirmed it within the last second.
  std::function<net::Task<absl::Status>()> confirm = []() -> net::Task<absl::Status> {
    co_return absl::OkStatus();
  };
  // Whether other gateways use the store, too: then nothing is recorded in the ledger before the store has it, since
  // the store alone knows who leads.
  bool shared = false;
  // Whether this gateway sent requests to the replica when it began to lead.
  std::function<bool(const std::string& replica)> served = [](const std::string&) { return false; };
  const ReplicaKeys* keys = nullptr;

  const scheduler::Cluster& cluster() const { return planning->cluster(); }
};

// The name of a member's node; empty: the node is not in the cluster.
inline std::string NodeOf(const scheduler::Cluster& cluster, const scheduler::MemberAt& at) {
  const scheduler::NodeId node = at.holding.node;
  return node < cluster.nodes.size() ? cluster.nodes[node].name : std::string();
}

}  // namespace gateway::control
