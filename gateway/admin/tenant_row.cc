#include "gateway/admin/tenant_row.h"

#include <nlohmann/json.hpp>

#include "gateway/people/overlay.h"

namespace gateway::admin {
namespace {

namespace limits = router::limits;

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

// What the file gives it, without grants, in the form of a key's limits. Empty: nothing.
std::string ConfiguredLimits(const Runtime& runtime, const std::string& path) {
  const config::Tenant* const tenant = TenantAt(runtime.configured().tenants, path);
  if (tenant == nullptr) return {};
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto add = [](nlohmann::ordered_json& to, const char* name, const auto& value) {
    if (value) to[name] = *value;
  };
  const auto add_all = [&](nlohmann::ordered_json& to, const config::Limits& limits) {
    add(to, "requests_per_minute", limits.requests_per_minute);
    add(to, "tokens_per_minute", limits.tokens_per_minute);
    add(to, "input_tokens_per_minute", limits.input_tokens_per_minute);
    add(to, "output_tokens_per_minute", limits.output_tokens_per_minute);
    add(to, "concurrency", limits.concurrency);
  };
  add_all(json, tenant->limits);
  for (const auto& [model, limits] : tenant->per_model) add_all(json["per_model"][model], limits);
  nlohmann::ordered_json budgets = nlohmann::ordered_json::array();
  for (const config::Budget& budget : tenant->budgets) {
    nlohmann::ordered_json& one = budgets.emplace_back(nlohmann::ordered_json::object());
    if (budget.micro_usd) one["usd"] = static_cast<double>(*budget.micro_usd) / 1e6;
    add(one, "tokens", budget.tokens);
    add(one, "device_hours", budget.device_hours);
    one["period"] = config::Name(budget.period);
    if (!budget.model.empty()) one["model"] = budget.model;
    if (!budget.device.empty()) one["device"] = budget.device;
  }
  if (budgets.size() == 1) json["budget"] = budgets.front();
  if (budgets.size() > 1) json["budget"] = std::move(budgets);
  return json.empty() ? std::string() : json.dump();
}

// A role over the parent gives the right to change a tenant that was made at run time.
void AddRights(const Call& call, answers::Tenant& row) {
  row.may_change = row.at_run_time && call.May(Permission::kChangeTenants, limits::ParentPath(row.path));
  row.may_add = row.self_service && call.May(Permission::kChangeTenants, row.path);
}

}  // namespace

std::vector<std::string_view> Families(config::ApiSet apis) {
  std::vector<std::string_view> names;
  for (unsigned i = 0; i < config::kApiFamilies; ++i) {
    if (const auto api = static_cast<config::Api>(i); apis.Has(api)) names.push_back(Name(api));
  }
  return names;
}

answers::Tenant RowOf(const Call& call, const Runtime& runtime, const TenantRuntime& tenant,
                      const Project* project) {
  answers::Tenant row{.path = tenant.path,
                      .name = tenant.config->name,
                      .parent = answers::TextOrNull(tenant.config->parent),
                      .models = ModelNames(runtime, tenant.models),
                      .endpoints = Families(tenant.apis),
                      .priority = tenant.config->priority,
                      .weight = tenant.config->weight,
                      .store_content = Name(tenant.config->store_content),
                      .at_run_time = tenant.config->at_run_time,
                      .state = tenant.disabled ? "disabled" : "in_force",
                      .self_service = tenant.self_service};
  if (project != nullptr) {
    Add(*project, row);
  } else if (std::string limits = ConfiguredLimits(runtime, tenant.path); !limits.empty()) {
    row.limits = conf::RawJson{std::move(limits)};
  }
  AddRights(call, row);
  return row;
}

answers::Tenant RowOf(const Call& call, const Project& project) {
  answers::Tenant row{.path = project.path,
                      .name = std::string(project.name()),
                      .parent = answers::TextOrNull(std::string(project.parent())),
                      .priority = "normal",
                      .weight = project.weight,
                      .store_content = "none",
                      .at_run_time = true,
                      .state = "not_in_force"};
  Add(project, row);
  AddRights(call, row);
  return row;
}

}  // namespace gateway::admin
