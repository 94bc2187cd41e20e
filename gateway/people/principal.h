// Principal: whom a request is for: the tenant, the key or token that it came with, and what they may do.
//
// Immutable, shared by every shard. PrincipalIndex is made anew whenever the keys or the configuration
// change, and swapped together with the Runtime that it was made for.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/config/tenant.h"
#include "gateway/config/types.h"
#include "gateway/ledger/content_keys.h"
#include "plugins/auth/key_table.h"
#include "plugins/auth/permissions.h"
#include "router/health/breaker.h"
#include "router/limits/plan.h"
#include "router/routes/route_table.h"

namespace gateway {

using router::ModelId;
using router::ReplicaId;
inline constexpr ModelId kNoModel{~0u};
inline constexpr ReplicaId kNoReplica{~0u};

struct Principal {
  std::string tenant;  // path: acme/search
  std::string key;     // id of the key, jwt:SUBJECT, or of a caller of the admin API: person:…
  router::limits::NodeRef node;
  std::vector<bool> models;  // by ModelId
  config::ApiSet apis;
  std::string priority;                // the most urgent band that its requests may wait in
  uint32_t weight = 1;                 // of its tenant, in queues
  std::vector<double> parent_weights;  // of the tenants above it, the root's first
  config::StoreContent store_content = config::StoreContent::kNone;
  ledger::ContentKeyRef content_key;           // of its tenant: seals what is stored; null: nothing is stored
  std::vector<config::Parameters> parameters;  // of its tenant and those above, the root's first; none empty

  router::CallerId caller = router::kAnyCaller;  // as breakers tell callers apart
  std::string cache_salt;                        // of its tenant's cache domain, in hex; empty: the only one

  bool MayUse(ModelId model) const { return models[static_cast<size_t>(model)]; }
};
using PrincipalRef = std::shared_ptr<const Principal>;

struct PrincipalIndex {
  std::shared_ptr<const plugins::auth::KeyTable> keys;
  absl::flat_hash_map<std::string, PrincipalRef> by_key;     // application keys, by id
  absl::flat_hash_map<std::string, PrincipalRef> by_tenant;  // by path: for tokens and anonymous calls

  const PrincipalRef* ForKey(std::string_view id) const;
  const PrincipalRef* ForTenant(std::string_view path) const;
};

}  // namespace gateway
