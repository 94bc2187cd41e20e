// Operations: what metrics, readiness and the admin API may see of the process, and ask of it.
//
// The Process fills it in, owns everything that it points to, and outlives its users. Thread: the control
// loop's; a handler that runs elsewhere uses `shared` only, and of that not the keys.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/admin/outbound_status.h"
#include "gateway/admin/web_page.h"
#include "gateway/audit/all_usage.h"
#include "gateway/audit/ledger_check.h"
#include "gateway/audit/usage_sharing.h"
#include "gateway/control/scaling/history.h"
#include "gateway/control/scaling/recent_traffic.h"
#include "gateway/control/status.h"
#include "gateway/discovery/discovery.h"
#include "gateway/limits/budget_watch.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/people/grants.h"
#include "gateway/people/jwks.h"
#include "gateway/people/key_events.h"
#include "gateway/people/projects.h"
#include "gateway/people/sessions.h"
#include "gateway/people/sign_in.h"
#include "gateway/people/terminal_sign_ins.h"
#include "gateway/replicas/kv_events.h"
#include "gateway/shard/runtime.h"
#include "gateway/shard/shared.h"
#include "plugins/auth/jwt_authenticator.h"

namespace scheduler {
class Planner;
}

namespace gateway {

namespace admin {
class EventFeed;
}

namespace control {
class AdapterLoads;
class Adapters;
class ControlPlane;
class Cordons;
class Jobs;
class ModelOrders;
class RolloutDriver;
}  // namespace control

// How the attempts to load a configuration have gone since the start.
struct ReloadState {
  uint64_t applied = 0;
  uint64_t refused = 0;
  bool last_ok = true;
  conf::TimePoint last_at{};
  std::string why;  // the last refusal, all its problems
};

namespace admin {
class LeaderCalls;
class Playground;
class Simulations;
}  // namespace admin

struct Operations {
  Shared* shared = nullptr;
  KeyEvents* key_events = nullptr;
  Sessions* sessions = nullptr;                  // null: nobody can sign in
  TerminalSignIns* terminal_sign_ins = nullptr;  // null: likewise
  Projects* projects = nullptr;                  // null: tenants stand in the configuration only
  Grants* grants = nullptr;                      // null with `projects`
  const BudgetWatch* budget_watch = nullptr;     // null: no rates are known
  // What verifies the tokens of the configured issuers; null when there are none.
  std::function<plugins::auth::JwtAuthenticator*()> tokens = [] { return nullptr; };
  std::function<uint16_t()> port = [] { return uint16_t{0}; };  // of the listener for applications
  SignIn* sign_in = nullptr;                                    // null: nobody can sign in
  admin::Playground* playground = nullptr;                      // null: no requests can be sent
  admin::Simulations* simulations = nullptr;                    // null: nothing is simulated
  std::function<std::shared_ptr<const Runtime>()> runtime;
  std::function<std::vector<const ShardMetrics*>()> shards;
  std::function<OutboundStatus()> outbound;
  std::function<std::vector<Jwks::Status>()> issuers;
  std::function<KvEventsStatus()> kv_events;
  std::function<std::vector<discovery::SourceStatus>()> discovery = [] {
    return std::vector<discovery::SourceStatus>();
  };
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<ReloadState()> reloads;
  std::function<std::vector<RecentTraffic::Row>()> traffic = [] { return std::vector<RecentTraffic::Row>(); };
  std::function<control::Status()> scaling = [] { return control::Status(); };
  // The history of one model; nothing where no policy scales it.
  std::function<std::optional<control::ScalingHistory>(const std::string& model)> scaling_history =
      [](const std::string&) { return std::nullopt; };
  std::function<net::Task<absl::Status>(std::string actor)> reload;
  admin::EventFeed* events = nullptr;
  control::ModelOrders* model_orders = nullptr;    // null: only where a test has none
  control::Adapters* adapters = nullptr;           // null with `model_orders`
  control::AdapterLoads* adapter_loads = nullptr;  // likewise
  // Writes an event to the ledger, later where it cannot be written now.
  std::function<void(ledger::Event)> record = [](const ledger::Event&) {};
  // The keys of stored content have changed. Any thread.
  std::function<void()> content_erased = [] {};
  // Why the ledger is not the one that the store knows; empty: it is.
  std::function<std::string()> ledger_trouble = [] { return std::string(); };
  std::optional<UsageOfOthers> usage_of_others = {};  // nothing: no other gateway uses the store
  const UsageSharing* usage_sharing = nullptr;        // null: likewise
  LedgerCheck* ledger_check = nullptr;                // null: the ledger is not verified here
  // Null until the control loop knows the running workloads, and without scheduling.
  std::function<control::Jobs*()> jobs = [] { return nullptr; };
  std::function<control::RolloutDriver*()> rollouts = [] { return nullptr; };
  std::function<control::Cordons*()> cordons = [] { return nullptr; };
  std::function<const scheduler::Planner*()> planner = [] { return nullptr; };
  // This gateway among others; null: only where a test has none.
  std::function<control::ControlPlane*()> control_plane = [] { return nullptr; };
  // Passes calls to the gateway that leads; null: this one leads, or knows nothing of others.
  std::function<admin::LeaderCalls*()> leader_calls = [] { return nullptr; };
  // The console's pages, at the paths that are no calls.
  std::function<admin::FindPage> page = [](std::string_view, std::string_view, std::string_view) {
    return std::nullopt;
  };
};

}  // namespace gateway
