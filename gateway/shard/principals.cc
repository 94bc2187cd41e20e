#include "gateway/shard/principals.h"

#include <algorithm>
#include <set>

#include "conf/hex.h"
#include "gateway/limits/limit_key.h"
#include "gateway/people/key_limits.h"
#include "gateway/shard/runtime.h"
#include "plugins/auth/digest.h"
#include "router/prefix/block_hash.h"

namespace gateway {
namespace {

// The same in every gateway that shares engines. No tenant can choose another tenant's domain.
std::string CacheSaltOf(const std::string& domain) {
  constexpr size_t kHexDigits = 32;
  return conf::Hex(plugins::auth::Sha256("tidegate cache domain " + domain)).substr(0, kHexDigits);
}

bool HasOrganisations(const Runtime& runtime) {
  const auto is_root = [](const TenantRuntime& tenant) { return tenant.path.find('/') == std::string::npos; };
  return std::ranges::count_if(runtime.tenants(), is_root) > 1;
}

// The caller to which the failures of a tenant's requests are attributed. With several organisations it is the
// tenant's organisation, because one may create any number of tenants.
router::CallerId CallerOf(std::string_view path, bool organisations) {
  if (organisations) path = path.substr(0, path.find('/'));
  return std::max<router::CallerId>(router::prefix::SaltOf(path, {}), 1);
}

std::vector<double> ParentWeights(const Runtime& runtime, std::string_view path) {
  std::vector<double> weights;
  for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
    const TenantRuntime* const above = runtime.FindTenant(path.substr(0, slash));
    weights.push_back(above == nullptr ? 1 : above->config->weight);
  }
  return weights;
}

PrincipalRef ForTenantItself(const Runtime& runtime, const TenantRuntime& tenant, bool organisations,
                             router::limits::LimitTree& limits, ledger::ContentKeyRef content_key) {
  auto principal = std::make_shared<Principal>();
  principal->tenant = tenant.path;
  principal->node = limits.Resolve(tenant.path);
  principal->models = tenant.models;
  principal->apis = tenant.apis;
  principal->priority = tenant.config->priority;
  principal->weight = tenant.config->weight;
  principal->parent_weights = ParentWeights(runtime, tenant.path);
  principal->store_content = tenant.config->store_content;
  principal->content_key = std::move(content_key);
  principal->parameters = tenant.parameters;
  principal->caller = CallerOf(tenant.path, organisations);
  if (runtime.has_cache_domains()) principal->cache_salt = CacheSaltOf(tenant.cache_domain);
  return principal;
}

config::ApiSet NarrowApis(config::ApiSet apis, const plugins::auth::Permissions& permissions) {
  if (permissions.endpoints.empty()) return apis;
  config::ApiSet narrowed;
  for (unsigned i = 0; i < config::kApiFamilies; ++i) {
    const auto api = static_cast<config::Api>(i);
    if (apis.Has(api) && permissions.AllowsEndpoint(Name(api))) narrowed.Add(api);
  }
  return narrowed;
}

void Narrow(Principal& principal, const plugins::auth::Permissions& permissions, const Runtime& runtime) {
  principal.apis = NarrowApis(principal.apis, permissions);
  if (permissions.models.empty()) return;
  for (size_t i = 0; i < principal.models.size(); ++i) {
    const router::ModelSpec& spec = runtime.routes().models()[i].spec;
    bool allowed = permissions.AllowsModel(spec.name);
    for (const std::string& alias : spec.aliases) allowed = allowed || permissions.AllowsModel(alias);
    principal.models[i] = principal.models[i] && allowed;
  }
}

// Whether requests may still use the key, or may have used it before it ended and still be arriving.
bool Works(const plugins::auth::KeyRecord& key, conf::TimePoint now) {
  constexpr conf::Duration kLongestArrival = std::chrono::minutes(10);
  if (key.revoked_at) return false;
  const std::optional<conf::TimePoint> end = key.EndsAt();
  return !end || now < *end + kLongestArrival;
}

PrincipalRef ForKeyOf(const Principal& tenant, const plugins::auth::KeyRecord& key,
                      const plugins::auth::KeyTable& keys, const Runtime& runtime,
                      router::limits::LimitTree& limits) {
  auto principal = std::make_shared<Principal>(tenant);
  principal->key = key.id;
  Narrow(*principal, key.permissions, runtime);
  if (!key.priority.empty()) principal->priority = key.priority;
  if (!key.limits.empty()) {
    router::limits::NodeSpec node{tenant.tenant + "/" + std::string(LimitKeyOf(keys, key.id)), {}};
    // The limits were checked when the key was created. A store that was edited by hand fails closed.
    auto specs = ParseKeyLimits(key.limits);
    if (!specs.ok()) {
      node.limits.push_back({router::limits::Dimension::kRequests, 0, router::limits::Period::kDay, ""});
    } else {
      node.limits = *std::move(specs);
    }
    if (auto added = limits.AddKey(node); added.ok()) principal->node = *added;
  }
  return principal;
}

}  // namespace

PrincipalRef BearerPrincipal(const Principal& tenant, const plugins::auth::JwtIdentity& identity,
                             const Runtime& runtime) {
  auto principal = std::make_shared<Principal>(tenant);
  principal->key = identity.key_id;
  Narrow(*principal, identity.permissions, runtime);
  return principal;
}

std::shared_ptr<const PrincipalIndex> BuildPrincipals(const Runtime& runtime,
                                                      std::shared_ptr<const plugins::auth::KeyTable> keys,
                                                      router::limits::LimitTree& limits, conf::TimePoint now,
                                                      const ledger::ContentKeys* content_keys) {
  auto index = std::make_shared<PrincipalIndex>();
  const bool organisations = HasOrganisations(runtime);
  for (const TenantRuntime& tenant : runtime.tenants()) {
    if (tenant.disabled) continue;
    const PrincipalRef principal =
        ForTenantItself(runtime, tenant, organisations, limits,
                        content_keys == nullptr ? nullptr : content_keys->For(tenant.path));
    index->by_tenant[tenant.path] = principal;
    if (!tenant.config->at_run_time) index->by_tenant.try_emplace(tenant.config->name, principal);
  }
  std::set<std::string, std::less<>> nodes;
  for (const plugins::auth::KeyRecordPtr& key : keys->List()) {
    const PrincipalRef* tenant = index->ForTenant(key->tenant);
    if (!tenant || !Works(*key, now)) continue;
    const PrincipalRef principal = ForKeyOf(**tenant, *key, *keys, runtime, limits);
    if (principal->node) nodes.insert(principal->node.path());
    index->by_key[key->id] = principal;
  }
  limits.KeepKeys(nodes);
  index->keys = std::move(keys);
  return index;
}

}  // namespace gateway
