#include "gateway/config/config.h"

#include <nlohmann/json.hpp>

#include "conf/hex.h"
#include "conf/reader.h"
#include "plugins/auth/digest.h"

namespace gateway {

void Bind(conf::Object& o, Config& config) {
  o.Required("server", config.server);
  o.Optional("auth", config.auth);
  o.Optional("admin", config.admin);
  o.Optional("people", config.people);
  o.Required("tenants", config.tenants, conf::NotEmpty());
  o.Required("models", config.models, conf::NotEmpty());
  o.Optional("ledger", config.ledger);
  o.Optional("files", config.files);
  if (o.reading() || config.files) o.Optional("batches", config.batches);
  if (o.Has("batches") && !o.Has("files"))
    o.Error("needs the section files, where their input and results are kept", "batches");
  o.Optional("datasets", config.datasets);
  o.Optional("state", config.state);
  if (config.state && config.files && config.files->s3 && config.ledger.content_key.empty()) {
    o.Error(
        "gateways that share a store and a bucket read each other's files: set ledger.content_key, to the "
        "same key "
        "at all of them",
        "files");
  }
  o.Optional("redis", config.redis);
  o.Optional("telemetry", config.telemetry);
  o.Optional("routing_log", config.routing_log);
  o.Optional("kubernetes", config.kubernetes);
  o.Optional("scaling", config.scaling);
}

const config::Tenant* Config::FindTenant(std::string_view name) const {
  for (const config::Tenant& tenant : tenants) {
    if (!tenant.at_run_time && tenant.name == name) return &tenant;
  }
  return nullptr;
}

const config::Model* Config::FindModel(std::string_view name_or_alias) const {
  for (const config::Model& model : models) {
    if (model.name == name_or_alias) return &model;
    for (const std::string& alias : model.aliases) {
      if (alias == name_or_alias) return &model;
    }
  }
  return nullptr;
}

nlohmann::json ToJson(const Config& config) {
  nlohmann::json out;
  conf::Writer writer(out);
  conf::Write(writer, config);
  conf::Prune(out);
  return out;
}

std::string Hash(const Config& config) {
  std::string canonical = ToJson(config).dump();
  if (config.scaling) {
    for (const config::ModelPolicy& policy : config.scaling->models) canonical += policy.sha256;
  }
  return conf::Hex(plugins::auth::Sha256(canonical));
}

std::optional<std::string> TenantPath(const Config& config, std::string_view name_or_path) {
  for (const config::Tenant& tenant : config.tenants) {
    std::string path = PathOf(config.tenants, tenant);
    if ((!tenant.at_run_time && tenant.name == name_or_path) || path == name_or_path) return path;
  }
  return std::nullopt;
}

}  // namespace gateway
