// The whole configuration of one gateway, typed. load.h makes one; it is checked and immutable from then on,
// so that a holder need not check again. Any thread may read it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/auth.h"
#include "gateway/config/batches.h"
#include "gateway/config/datasets.h"
#include "gateway/config/kubernetes.h"
#include "gateway/config/ledger.h"
#include "gateway/config/model.h"
#include "gateway/config/people.h"
#include "gateway/config/routing.h"
#include "gateway/config/scaling.h"
#include "gateway/config/server.h"
#include "gateway/config/services.h"
#include "gateway/config/state.h"
#include "gateway/config/tenant.h"

namespace conf {
class Object;
}

namespace gateway {

struct Config {
  config::Server server;
  config::Auth auth;
  config::Admin admin;
  config::People people;
  std::vector<config::Tenant> tenants;
  std::vector<config::Model> models;
  config::Ledger ledger;
  std::optional<config::State> state;  // absent: the file of state_dir
  std::optional<config::Redis> redis;
  config::Telemetry telemetry;
  config::RoutingLog routing_log;
  std::optional<config::Kubernetes> kubernetes;
  std::optional<config::Scaling> scaling;
  std::optional<config::Files> files;  // absent: applications keep nothing here, and there are no batches
  config::Batches batches;
  config::Datasets datasets;

  // By name, of those that are configured, or by name or alias; null when there is none.
  const config::Tenant* FindTenant(std::string_view name) const;
  const config::Model* FindModel(std::string_view name_or_alias) const;
};

void Bind(conf::Object& object, Config& out);

// The effective configuration, defaults included, as a document that ParseConfig accepts; secrets as
// references.
nlohmann::json ToJson(const Config& config);

// SHA-256 in lower-case hex over the canonical form of ToJson (sorted keys, no spaces) and over the policy
// files that it names. Secret values are not part of it.
std::string Hash(const Config& config);

// "demo/search" for the tenant with this name or path; nothing when there is none. A tenant that was made at run
// time has its path alone.
std::optional<std::string> TenantPath(const Config& config, std::string_view name_or_path);

}  // namespace gateway
