#include "gateway/people/principal.h"

#include "conf/text.h"

namespace gateway {

const PrincipalRef* PrincipalIndex::ForKey(std::string_view id) const {
  const auto it = by_key.find(conf::Abseil(id));
  return it == by_key.end() ? nullptr : &it->second;
}

const PrincipalRef* PrincipalIndex::ForTenant(std::string_view path) const {
  const auto it = by_tenant.find(conf::Abseil(path));
  return it == by_tenant.end() ? nullptr : &it->second;
}

}  // namespace gateway
