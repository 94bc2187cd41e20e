// From the claims of a verified token to what Tidegate knows: tenant, models, role, and a stable key id.
//
// Pure. A claim is named by its member name ("org_id") or, when the name begins with '/', by the path to it
// through objects ("/realm_access/team", with ~1 for '/' and ~0 for '~').
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plugins/auth/permissions.h"

namespace plugins::auth {

// Null: there is none.
const nlohmann::json* FindClaim(const nlohmann::json& claims, std::string_view name);

struct ClaimMapping {
  // Either a claim (text, or a list of texts) whose values are looked up in the map ...
  std::string tenant_claim;
  std::map<std::string, std::string> tenants;
  // ... or a path with claims in braces, each of which must hold one name: "acme/{team}".
  std::string tenant_template;

  std::string models_claim;  // a list of globs, or one text with blanks between them; empty: not read
  std::string role_claim;    // text or list of texts; empty: not read
  std::map<std::string, Role> roles;
};

struct Mapped {
  std::string tenant;  // empty only where a role was found instead
  Permissions permissions;
  Role role = Role::kNone;
};

// At configuration: names the field and what would be right.
absl::Status CheckMapping(const ClaimMapping& mapping);

// NotFound: the token belongs to no tenant and has no role. InvalidArgument: a claim is not what it must be.
// Messages name claims of the configuration, never what the token held. A value that maps to two different
// tenants is refused rather than chosen from.
absl::StatusOr<Mapped> MapClaims(const nlohmann::json& claims, const ClaimMapping& mapping);

// "jwt:<issuer>:<subject>", or with '#' and a hash where the subject is long or has unusual characters. Two
// subjects never share one, and it has at most 101 bytes.
std::string SubjectKeyId(std::string_view issuer_name, std::string_view subject);

}  // namespace plugins::auth
