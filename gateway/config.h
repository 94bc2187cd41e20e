// The whole configuration of one gateway, typed, checked and immutable once loaded.
//
// A Config exists only when every section is valid and they agree with each other: whoever holds one need not
// check again. A load that fails gives every problem at once and nothing else changes (last known good).
// Secrets are resolved at load. Relative paths are taken from the working directory and kept as written.
// Thread: loading blocks on files; a loaded Config is read by any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "conf/sources.h"
#include "gateway/config/auth.h"
#include "gateway/config/ledger.h"
#include "gateway/config/model.h"
#include "gateway/config/routing.h"
#include "gateway/config/scaling.h"
#include "gateway/config/server.h"
#include "gateway/config/services.h"
#include "gateway/config/tenant.h"

namespace gateway {

struct Config {
  config::Server server;
  config::Auth auth;
  config::Admin admin;
  std::vector<config::Tenant> tenants;
  std::vector<config::Model> models;
  config::Ledger ledger;
  std::optional<config::Redis> redis;
  config::Telemetry telemetry;
  config::RoutingLog routing_log;
  std::optional<config::Scaling> scaling;

  // By name, or by name or alias; null when there is none.
  const config::Tenant* FindTenant(std::string_view name) const;
  const config::Model* FindModel(std::string_view name_or_alias) const;
};

struct LoadResult {
  std::optional<Config> config;  // present exactly when there are no problems
  std::vector<conf::Problem> problems;
  std::vector<std::string> defaulted;  // pointers of the options that the file does not give
};

LoadResult LoadConfig(const std::string& path, const conf::Sources& sources = conf::SystemSources(),
                      const config::MachineProbe& probe = config::ProbeThisMachine);
// `file` is the name that problems show.
LoadResult ParseConfig(std::string_view text, const std::string& file,
                       const conf::Sources& sources = conf::SystemSources(),
                       const config::MachineProbe& probe = config::ProbeNothing);

// The effective configuration, defaults included, as a document that ParseConfig accepts; secrets as
// references.
nlohmann::json ToJson(const Config& config);

// SHA-256 in lower-case hex over the canonical form of ToJson: sorted keys, no spaces; and over the policy
// files that it names. Secret values have no part.
std::string Hash(const Config& config);

}  // namespace gateway
