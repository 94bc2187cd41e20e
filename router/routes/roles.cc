#include "router/routes/roles.h"

namespace router {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kBoth:
      return "both";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "both";
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
