#include "gateway/admin/scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gateway::admin {

VisibleModels::VisibleModels(const Call& call)
    : runtime_(*call.runtime), all_(call.caller.authority.MayEverywhere(Permission::kSeeModels)) {
  if (all_) return;
  visible_.resize(runtime_.routes().models().size());
  for (const TenantRuntime& tenant : runtime_.tenants()) {
    if (!call.May(Permission::kSeeModels, tenant.path)) continue;
    for (size_t i = 0; i < visible_.size(); ++i) visible_[i] = visible_[i] || tenant.models[i];
  }
}

bool VisibleModels::Has(std::string_view model) const {
  if (all_) return true;
  const auto& models = runtime_.routes().models();
  for (size_t i = 0; i < visible_.size(); ++i) {
    if (models[i].spec.name == model) return visible_[i];
  }
  return false;
}

std::string PathOfTenant(const Call& call, std::string_view name_or_path) {
  const TenantRuntime* const found = call.runtime->FindTenant(name_or_path);
  return found == nullptr ? std::string(name_or_path) : found->path;
}

std::variant<std::string, Answer> TenantInScope(const Call& call, Permission permission) {
  const std::string named = call.Query("tenant");
  if (call.caller.authority.MayEverywhere(permission)) return PathOfTenant(call, named);
  const std::vector<std::string> own = call.caller.authority.TenantsOf(permission);
  if (named.empty() && own.size() == 1) return own.front();
  if (named.empty()) {
    return Refuse(api::Code::kInvalidValue,
                  std::vector<FieldProblem>{
                      {"tenant", fmt::format("say which of your tenants: {}", fmt::join(own, ", "))}},
                  call.request_id);
  }
  std::string path = PathOfTenant(call, named);
  if (call.May(permission, path)) return path;
  return Refuse(
      api::Code::kPermissionDenied,
      fmt::format("you have no role over the tenant \"{}\"; yours: {}", named, fmt::join(own, ", ")),
      call.request_id);
}

}  // namespace gateway::admin
