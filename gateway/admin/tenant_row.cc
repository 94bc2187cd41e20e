#include "gateway/admin/tenant_row.h"

namespace gateway::admin {
namespace {

std::vector<std::string> ModelNames(const Runtime& runtime, const std::vector<bool>& allowed) {
  std::vector<std::string> names;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) names.push_back(runtime.routes().models()[i].spec.name);
  }
  return names;
}

std::string_view Name(config::StoreContent content) {
  return content == config::StoreContent::kNone   ? "none"
         : content == config::StoreContent::kFull ? "full"
                                                  : "prompts";
}

void Add(const Project& project, answers::Tenant& row) {
  row.made_by = project.made_by;
  row.made = {project.made};
  if (!project.limits.empty()) row.limits = conf::RawJson{project.limits};
}

// The name of the tenant above, which is the last part of its path where that was made at run time.
std::string ParentOf(const config::Tenant& tenant) {
  return tenant.parent.substr(tenant.parent.rfind('/') + 1);
}

}  // namespace

std::vector<std::string_view> Families(config::ApiSet apis) {
  std::vector<std::string_view> names;
  for (unsigned i = 0; i < config::kApiFamilies; ++i) {
    if (const auto api = static_cast<config::Api>(i); apis.Has(api)) names.push_back(Name(api));
  }
  return names;
}

answers::Tenant RowOf(const Runtime& runtime, const TenantRuntime& tenant, const Project* project) {
  answers::Tenant row{.path = tenant.path,
                      .name = tenant.config->name,
                      .parent = answers::TextOrNull(ParentOf(*tenant.config)),
                      .models = ModelNames(runtime, tenant.models),
                      .endpoints = Families(tenant.apis),
                      .priority = tenant.config->priority,
                      .weight = tenant.config->weight,
                      .store_content = Name(tenant.config->store_content),
                      .at_run_time = tenant.config->at_run_time,
                      .state = tenant.disabled ? "disabled" : "in_force",
                      .self_service = tenant.self_service};
  if (project != nullptr) Add(*project, row);
  return row;
}

answers::Tenant RowOf(const Project& project) {
  answers::Tenant row{.path = project.path,
                      .name = std::string(project.name()),
                      .parent = answers::TextOrNull(project.parent().substr(project.parent().rfind('/') + 1)),
                      .priority = "normal",
                      .weight = project.weight,
                      .store_content = "none",
                      .at_run_time = true,
                      .state = "not_in_force"};
  Add(project, row);
  return row;
}

}  // namespace gateway::admin
