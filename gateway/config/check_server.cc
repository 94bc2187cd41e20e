#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "conf/secret.h"
#include "gateway/config/check.h"

#include "gateway/config/names.h"
#include "gateway/config/pem.h"

namespace gateway::config {
namespace {

// Whether listening on `b` takes `a` too: a wildcard takes its family, and "::" takes IPv4 as well.
bool Covers(const Address& b, const Address& a) {
  const bool ipv4 = a.host.find(':') == std::string::npos;
  return b.host == a.host || b.host == "::" || (b.host == "0.0.0.0" && ipv4);
}

bool Conflict(const Address& a, const Address& b) {
  return a.port != 0 && a.port == b.port && (Covers(a, b) || Covers(b, a));
}

// Of the i-th entry of a list that may be written as a single value.
std::string EntryPointer(conf::Document& document, const std::string& list, size_t i) {
  const bool single = document.Nearest(list).kind() != conf::Kind::kSequence;
  return single ? list : fmt::format("{}/{}", list, i);
}

class NamedFiles {
 public:
  explicit NamedFiles(conf::Document& document) : document_(document) {}

  void Certificate(const std::string& pointer, const std::string& path) {
    Check(pointer, path, WrongCertificate);
  }

  void KeyPair(const std::string& pointer, const std::string& certificate, const std::string& key) {
    const bool certificate_read = Check(pointer + "/certificate", certificate, WrongCertificate);
    const bool key_read = Check(pointer + "/key", key, WrongPrivateKey);
    if (!certificate_read || !key_read) return;
    const absl::StatusOr<std::string> certificate_pem = document_.sources().file(certificate);
    absl::StatusOr<std::string> key_pem = document_.sources().file(key);
    if (!certificate_pem.ok() || !key_pem.ok()) return;
    Report(pointer + "/key", key, WrongKeyPair(*certificate_pem, *key_pem));
    conf::Wipe(*key_pem);
  }

  void Client(const std::string& pointer, const ClientTls& tls) {
    Certificate(pointer + "/ca", tls.ca);
    if (!tls.certificate.empty() && !tls.key.empty()) KeyPair(pointer, tls.certificate, tls.key);
  }

  void Server(const std::string& pointer, const std::optional<ServerTls>& tls) {
    if (!tls) return;
    KeyPair(pointer, tls->certificate, tls->key);
    Certificate(pointer + "/client_ca", tls->client_ca);
  }

  void Readable(const std::string& pointer, const std::string& path) {
    Check(pointer, path, [](std::string_view) { return std::string(); });
  }

 private:
  bool Check(const std::string& pointer, const std::string& path, std::string (*wrong)(std::string_view)) {
    if (path.empty()) return false;
    absl::StatusOr<std::string> contents = document_.sources().file(path);
    if (!contents.ok()) {
      document_.AddAt(pointer, path, conf::Std(contents.status().message()));
      return false;
    }
    const std::string problem = wrong(*contents);
    conf::Wipe(*contents);
    Report(pointer, path, problem);
    return problem.empty();
  }

  void Report(const std::string& pointer, const std::string& path, const std::string& problem) {
    if (!problem.empty()) document_.AddAt(pointer, path, fmt::format("the file \"{}\" {}", path, problem));
  }

  conf::Document& document_;
};

std::string Taken(const Address& address, const Address& by, std::string_view list) {
  if (ToString(address) == ToString(by)) return fmt::format("{} is in {} already", ToString(address), list);
  return fmt::format("{} is taken by {} of {}", ToString(address), ToString(by), list);
}

}  // namespace

void CheckServer(conf::Document& document, const Config& config) {
  const std::vector<Address>& listen = config.server.listen;
  for (size_t i = 0; i < listen.size(); ++i) {
    const std::string pointer = EntryPointer(document, "/server/listen", i);
    for (size_t j = 0; j < i; ++j) {
      if (!Conflict(listen[i], listen[j])) continue;
      document.AddAt(pointer, ToString(listen[i]), Taken(listen[i], listen[j], "the same list"));
      break;
    }
  }
  const Address& admin = config.server.admin;
  const auto holder = std::ranges::find_if(listen, [&](const Address& one) { return Conflict(one, admin); });
  if (holder != listen.end()) {
    document.AddAt("/server/admin", ToString(admin),
                   Taken(admin, *holder, "server.listen") + "; the admin listener needs its own port");
  }
  if (config.server.console) {
    const Address& console = *config.server.console;
    const bool taken =
        Conflict(console, config.server.admin) ||
        std::ranges::any_of(listen, [&](const Address& one) { return Conflict(console, one); });
    if (taken) {
      document.AddAt("/server/console", ToString(console),
                     fmt::format("{} is taken by another listener; the one for people needs its own port",
                                 ToString(console)));
    }
  }
  if (!config.state || !config.scaling) return;
  // Several gateways share the store, and any of them may lead: it must be able to take over what runs.
  if (config.scaling->launcher == LauncherKind::kProcess) {
    document.AddAt(
        "/scaling/launcher", "process",
        "another gateway of the database of `state` could not take over what runs on this machine; use "
        "slurm or kubernetes, or leave `state` out, which keeps the store in server.state_dir");
  } else if (config.scaling->slurm && config.scaling->slurm->name.empty()) {
    document.AddAt(
        "/scaling/slurm/name", "",
        "is required with `state`: all gateways of the database need the same name, by which they know "
        "their jobs");
  } else if (config.scaling->kubernetes && config.scaling->kubernetes->name.empty()) {
    document.AddAt(
        "/scaling/kubernetes/name", "",
        "is required with `state`: all gateways of the database need the same name, by which they know "
        "their pods");
  }
}

void CheckAuth(conf::Document& document, const Config& config) {
  const Auth& auth = config.auth;
  const Names tenants = TenantNames(config.tenants);
  const auto known = [&](const std::string& pointer, const std::string& tenant) {
    if (tenant.empty() || tenants.Has(tenant) || !tenants.complete()) return;
    document.AddAt(pointer, tenant, fmt::format("unknown tenant \"{}\"{}", tenant, tenants.Hint(tenant)));
  };
  std::map<std::string, size_t> issuers;
  for (size_t i = 0; i < auth.jwt.size(); ++i) {
    const Jwt& jwt = auth.jwt[i];
    const auto [first, added] = issuers.try_emplace(jwt.issuer, i);
    if (!added && !jwt.issuer.empty()) {
      document.AddAt(
          fmt::format("/auth/jwt/{}/issuer", i), jwt.issuer,
          fmt::format("issuer \"{}\" is given twice, first at /auth/jwt/{}", jwt.issuer, first->second));
    }
    for (const auto& [value, tenant] : jwt.tenant.values) {
      known(conf::JoinPointer(fmt::format("/auth/jwt/{}/tenant/values", i), value), tenant);
    }
  }
  known("/auth/anonymous_tenant", auth.anonymous_tenant);
  if (!auth.anonymous_tenant.empty()) {
    for (const Address& address : config.server.listen) {
      if (address.host.empty() || address.loopback()) continue;
      document.AddAt(
          "/auth/anonymous_tenant", auth.anonymous_tenant,
          fmt::format("calls without credentials are for development only, and {} can be reached from "
                      "elsewhere; listen on 127.0.0.1 or remove the key",
                      ToString(address)));
      break;
    }
  } else if (!auth.keys && auth.jwt.empty()) {
    document.AddAt("/auth/keys", "", "no caller could authenticate; set keys to true, or add a jwt issuer");
  }
}

void CheckPeople(conf::Document& document, const Config& config) {
  const Server& server = config.server;
  if (!server.admin.host.empty() && !server.admin.loopback() && !server.admin_tls && !config.admin.insecure) {
    document.AddAt(
        "/server/admin", ToString(server.admin),
        "keys and sessions could be read on the network: set admin_tls, listen on 127.0.0.1, or set "
        "admin.insecure: true where the network is trusted or something in front speaks TLS");
  }
  if (server.console && !server.console->host.empty() && !server.console->loopback() && !server.console_tls &&
      !config.people.insecure) {
    document.AddAt("/server/console", ToString(*server.console),
                   "sessions could be read on the network: set console_tls, listen on 127.0.0.1, or set "
                   "people.insecure: true where the network is trusted or something in front speaks TLS");
  }
  if (!server.console) {
    constexpr std::string_view kNoEffect =
        "has no effect without server.console; for the admin listener, see admin";
    if (!config.people.allow.empty()) document.AddAt("/people/allow", "", std::string(kNoEffect));
    if (config.people.insecure) document.AddAt("/people/insecure", "", std::string(kNoEffect));
  }
  const Names tenants = TenantNames(config.tenants);
  std::set<std::string> names;
  for (size_t i = 0; i < config.people.providers.size(); ++i) {
    const Provider& provider = config.people.providers[i];
    if (!provider.name.empty() && !names.insert(provider.name).second) {
      document.AddAt(
          fmt::format("/people/providers/{}/name", i), provider.name,
          fmt::format("\"{}\" is given twice; each provider needs a name of its own", provider.name));
    }
    for (size_t r = 0; r < provider.roles.size(); ++r) {
      const std::string& tenant = provider.roles[r].tenant;
      if (tenant.empty() || !tenants.complete() || TenantPath(config, tenant)) continue;
      document.AddAt(fmt::format("/people/providers/{}/roles/{}/tenant", i, r), tenant,
                     fmt::format("unknown tenant \"{}\"{}", tenant, tenants.Hint(tenant)));
    }
  }
  names.clear();
  const std::vector<ApprovalRule>& rules = config.people.requests.approve;
  for (size_t i = 0; i < rules.size(); ++i) {
    const std::string pointer = fmt::format("/people/requests/approve/{}", i);
    if (!rules[i].name.empty() && !names.insert(rules[i].name).second) {
      document.AddAt(
          pointer + "/name", rules[i].name,
          fmt::format("\"{}\" is given twice; the ledger names a rule by its name", rules[i].name));
    }
    const std::string& tenant = rules[i].tenant;
    if (tenant.empty() || !tenants.complete() || TenantPath(config, tenant)) continue;
    document.AddAt(pointer + "/tenant", tenant,
                   fmt::format("unknown tenant \"{}\"{}", tenant, tenants.Hint(tenant)));
  }
}

void CheckLedger(conf::Document& document, const Config& config) {
  const std::vector<Sink>& sinks = config.ledger.sinks;
  std::set<std::string> names;
  std::set<std::string> paths;
  for (size_t i = 0; i < sinks.size(); ++i) {
    if (!sinks[i].name.empty() && !names.insert(sinks[i].name).second) {
      document.AddAt(fmt::format("/ledger/sinks/{}/name", i), sinks[i].name,
                     fmt::format("sink \"{}\" is given twice; the name identifies its position in the ledger",
                                 sinks[i].name));
    }
    const auto* file = std::get_if<FileSink>(&sinks[i].to);
    if (file != nullptr && !file->path.empty() && !paths.insert(file->path).second) {
      document.AddAt(fmt::format("/ledger/sinks/{}/path", i), file->path,
                     fmt::format("\"{}\" is written by another sink already", file->path));
    }
  }
}

void CheckFiles(conf::Document& document, const Config& config) {
  NamedFiles files(document);
  files.Server("/server/tls", config.server.tls);
  files.Server("/server/admin_tls", config.server.admin_tls);
  files.Server("/server/console_tls", config.server.console_tls);
  for (size_t i = 0; i < config.auth.jwt.size(); ++i) {
    files.Readable(fmt::format("/auth/jwt/{}/jwks", i), config.auth.jwt[i].jwks.file);
    files.Client(fmt::format("/auth/jwt/{}/tls", i), config.auth.jwt[i].tls);
  }
  for (size_t m = 0; m < config.models.size(); ++m) {
    const std::vector<Endpoint>& endpoints = config.models[m].endpoints;
    for (size_t e = 0; e < endpoints.size(); ++e) {
      files.Client(fmt::format("/models/{}/endpoints/{}/tls", m, e), endpoints[e].tls);
    }
  }
  for (size_t i = 0; i < config.ledger.sinks.size(); ++i) {
    const auto* webhook = std::get_if<WebhookSink>(&config.ledger.sinks[i].to);
    if (webhook != nullptr) files.Client(fmt::format("/ledger/sinks/{}/tls", i), webhook->tls);
  }
  for (size_t i = 0; i < config.people.providers.size(); ++i)
    files.Client(fmt::format("/people/providers/{}/tls", i), config.people.providers[i].tls);
  if (config.state) {
    files.Certificate("/state/ca", config.state->ca);
    if (!config.state->certificate.empty())
      files.KeyPair("/state", config.state->certificate, config.state->key);
  }
  if (config.files && config.files->s3) files.Certificate("/files/s3/ca", config.files->s3->ca);
  if (config.redis) files.Client("/redis/tls", config.redis->tls);
  if (config.telemetry.otlp) files.Client("/telemetry/otlp/tls", config.telemetry.otlp->tls);
}

}  // namespace gateway::config
