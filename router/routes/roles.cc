#include "router/routes/roles.h"

#include "conf/words.h"

namespace router {

constexpr conf::Word<Role> kRoles[] = {
    {"both", Role::kBoth}, {"prefill", Role::kPrefill}, {"decode", Role::kDecode}};

std::string_view RoleName(Role role) {
  return conf::WordOf(kRoles, role);
}

Roles RolesFor(Part part, const std::optional<PrefillTransferSpec>& spec) {
  if (!spec) return kAnswerers;
  switch (part) {
    case Part::kWhole:
      return spec->decodes_whole ? kAnswerers : RoleBit(Role::kBoth);
    case Part::kPrefill:
      return RoleBit(Role::kPrefill);
    case Part::kDecode:
      return spec->decodes_whole ? kAnswerers : RoleBit(Role::kDecode);
  }
  return kAnswerers;
}

}  // namespace router
