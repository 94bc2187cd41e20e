// Builds the principals of a runtime from its tenants and the table of keys.
//
// Thread: the control loop's; any shard may call BearerPrincipal.
#pragma once

#include <memory>

#include "conf/time.h"
#include "gateway/people/principal.h"
#include "plugins/auth/jwt_authenticator.h"
#include "router/limits/tree.h"

namespace gateway {

class Runtime;

// One principal per tenant and per valid key. A key with its own limits becomes a node of the limit tree; the nodes of
// keys that are no longer valid are removed. Without `content_keys` no content is stored.
std::shared_ptr<const PrincipalIndex> BuildPrincipals(const Runtime& runtime,
                                                      std::shared_ptr<const plugins::auth::KeyTable> keys,
                                                      router::limits::LimitTree& limits, conf::TimePoint now,
                                                      const ledger::ContentKeys* content_keys = nullptr);

// The principal of a bearer token: the tenant's principal, restricted by the token's claims.
PrincipalRef BearerPrincipal(const Principal& tenant, const plugins::auth::JwtIdentity& identity,
                             const Runtime& runtime);

}  // namespace gateway
