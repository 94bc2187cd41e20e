// Permissions of a caller: the names that keys and tokens share.
//
// Permissions only ever narrow what the tenant may do; an empty list means "as the tenant".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"

namespace plugins::auth {

// Roles: over a tenant and those below it (member, lead), or over everything (viewer, operator, admin).
// kNone: an application's caller. What each may do: gateway/people/permissions.h.
enum class Role : uint8_t { kNone, kMember, kLead, kViewer, kOperator, kAdmin };

conf::Words<Role> WordsOf(Role);
std::string_view RoleName(Role role);  // "" for kNone
std::optional<Role> RoleFromName(std::string_view name);
// Whether it is a role over a tenant, rather than over everything.
bool IsOfTenant(Role role);

// Rights that no role includes, except kAdmin, which has all of them: an admin key gets them by name.
enum class Right : uint8_t { kSubmitJobs };

conf::Words<Right> WordsOf(Right);
std::string_view RightName(Right right);  // "submit_jobs"
std::optional<Right> RightFromName(std::string_view name);
std::vector<std::string_view> RightNames();

struct Permissions {
  std::vector<std::string> models;     // globs with * and ?; empty: all of the tenant's
  std::vector<std::string> endpoints;  // API families such as "chat" or "embeddings"; empty: all

  bool AllowsModel(std::string_view model) const;
  bool AllowsEndpoint(std::string_view family) const;
  bool operator==(const Permissions&) const = default;
};

// `*` matches any run of characters, `?` a single one. Linear in practice and never worse than |pattern|·|text|.
bool GlobMatch(std::string_view pattern, std::string_view text);

// One level of a tenant path: a letter or digit, then letters, digits, '.', '_' or '-', at most 64 in all.
bool IsTenantSegment(std::string_view segment);

// One to eight segments joined by '/': "acme", "acme/search".
bool IsTenantPath(std::string_view path);

inline constexpr std::string_view kTenantPathRule =
    "one to eight names joined by '/', each of at most 64 letters, digits, '.', '_' and '-' "
    "that begins with a letter or digit, such as \"acme/search\"";

}  // namespace plugins::auth
