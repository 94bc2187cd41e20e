#include "gateway/config.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/check.h"

namespace gateway {

static void Bind(conf::Object& o, Config& config) {
  o.Required("server", config.server);
  o.Optional("auth", config.auth);
  o.Optional("admin", config.admin);
  o.Required("tenants", config.tenants, conf::NotEmpty());
  o.Required("models", config.models, conf::NotEmpty());
  o.Optional("ledger", config.ledger);
  o.Optional("redis", config.redis);
  o.Optional("telemetry", config.telemetry);
  o.Optional("routing_log", config.routing_log);
  o.Optional("scaling", config.scaling);
}

const config::Tenant* Config::FindTenant(std::string_view name) const {
  for (const config::Tenant& tenant : tenants) {
    if (tenant.name == name) return &tenant;
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

LoadResult LoadConfig(const std::string& path, const conf::Sources& sources,
                      const config::MachineProbe& probe) {
  const absl::StatusOr<std::string> text = sources.file(path);
  if (text.ok()) return ParseConfig(*text, path, sources, probe);
  LoadResult out;
  out.problems.push_back({.file = path,
                          .pointer = "",
                          .line = 0,
                          .value = "",
                          .message = std::string(conf::Std(text.status().message()))});
  return out;
}

LoadResult ParseConfig(std::string_view text, const std::string& file, const conf::Sources& sources,
                       const config::MachineProbe& probe) {
  LoadResult out;
  conf::Document document(text, file, sources);
  Config config;
  std::vector<conf::Problem> elsewhere;  // in files that this one names
  if (document.parsed()) {
    conf::Read(document.root(), config);
    config::CheckServer(document, config);
    config::CheckAuth(document, config);
    config::CheckTenants(document, config);
    config::CheckModels(document, config);
    config::CheckRouting(document, config);
    config::CheckDisaggregation(document, config);
    config::CheckLedger(document, config);
    config::CheckFiles(document, config);
    config::LoadScaling(document, config, probe, elsewhere);
  }
  out.problems = document.TakeProblems();
  out.problems.insert(out.problems.end(), elsewhere.begin(), elsewhere.end());
  out.defaulted = document.TakeDefaulted();
  if (!out.problems.empty()) return out;
  config::TakeFromBases(config.models);
  out.config = std::move(config);
  return out;
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
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (EVP_Digest(canonical.data(), canonical.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not available in this build of OpenSSL");
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace gateway
