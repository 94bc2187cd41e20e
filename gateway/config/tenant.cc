#include "gateway/config/tenant.h"

#include <algorithm>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"

namespace gateway::config {
namespace {

constexpr conf::Word<Period> kPeriods[] = {
    {"day", Period::kDay}, {"week", Period::kWeek}, {"month", Period::kMonth}};
constexpr conf::Word<StoreContent> kStoreContent[] = {
    {"none", StoreContent::kNone}, {"prompts", StoreContent::kPrompts}, {"full", StoreContent::kFull}};

// A zero is more likely a slip than a wish, and readers differ on whether it means none or no limit.
struct AboveZero {
  template <class T>
  std::string operator()(T limit) const {
    return limit > 0 ? "" : "must be at least 1; remove the key for no limit";
  }
};

struct DeviceHours {
  std::string operator()(double hours) const {
    return hours >= 1e-6 && hours <= 1e8 ? ""
                                         : "must be from 0.000001 to 100000000; remove the key for no limit";
  }
};

}  // namespace

// What stands under `limits` of a tenant.
struct TenantLimits {
  Limits* any_model;
  std::map<std::string, Limits>* per_model;
  std::optional<uint64_t>* body_memory;
};

void Bind(conf::Object& o, Limits& limits) {
  o.Optional("requests_per_minute", limits.requests_per_minute, AboveZero());
  o.Optional("tokens_per_minute", limits.tokens_per_minute, AboveZero());
  o.Optional("input_tokens_per_minute", limits.input_tokens_per_minute, AboveZero());
  o.Optional("output_tokens_per_minute", limits.output_tokens_per_minute, AboveZero());
  o.Optional("concurrency", limits.concurrency, AboveZero());
}

static void Bind(conf::Object& o, TenantLimits& limits) {
  Bind(o, *limits.any_model);
  o.Optional("body_memory", conf::Size(*limits.body_memory), conf::AtLeast{uint64_t{1} << 20});
  o.Optional("per_model", *limits.per_model);
}

static void Bind(conf::Object& o, Budget& budget) {
  o.Optional("usd", conf::Money(budget.micro_usd), AboveZero());
  o.Optional("tokens", budget.tokens, AboveZero());
  o.Optional("device_hours", budget.device_hours, DeviceHours());
  o.Required("period", conf::Choice(budget.period, "period", kPeriods));
  o.Optional("model", budget.model, ValidName());
  o.Optional("device", budget.device, ValidName());
  if (!o.reading()) return;
  if (!o.Has("usd") && !o.Has("tokens") && !o.Has("device_hours"))
    o.Error("give usd, tokens or device_hours");
  if (o.Has("device") && (o.Has("usd") || o.Has("tokens") || !o.Has("device_hours"))) {
    o.Error(
        "device limits device_hours to one kind of device: give it with device_hours alone, and usd or "
        "tokens in an entry of their own");
  }
}

conf::Words<Period> PeriodWords() {
  return kPeriods;
}

std::string_view Name(Period period) {
  return conf::WordOf(kPeriods, period);
}

std::string PathOf(const std::vector<Tenant>& tenants, const Tenant& tenant) {
  if (tenant.parent.empty()) return tenant.name;
  if (tenant.at_run_time) return tenant.parent + "/" + tenant.name;
  const auto parent = std::ranges::find_if(
      tenants, [&](const Tenant& one) { return !one.at_run_time && one.name == tenant.parent; });
  return parent == tenants.end() ? tenant.name : PathOf(tenants, *parent) + "/" + tenant.name;
}

static bool IsAtOrBelow(std::string_view path, std::string_view above) {
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

std::vector<scheduler::LabelRule> ResidencyOf(const std::vector<Tenant>& tenants, std::string_view path) {
  std::vector<scheduler::LabelRule> rules;
  if (path.empty()) return rules;
  for (const Tenant& tenant : tenants) {
    if (tenant.residency.rules.empty() || !IsAtOrBelow(path, PathOf(tenants, tenant))) continue;
    rules.insert(rules.end(), tenant.residency.rules.begin(), tenant.residency.rules.end());
  }
  return rules;
}

bool MayNameSecret(const std::vector<Tenant>& tenants, std::string_view path, std::string_view reference) {
  if (reference.find("/..") != reference.npos) return false;  // it leads elsewhere than it looks
  return std::ranges::any_of(tenants, [&](const Tenant& tenant) {
    if (tenant.job_secrets.empty()) return false;
    const std::string above = PathOf(tenants, tenant);
    if (!IsAtOrBelow(path, above)) return false;
    const auto lists = [&](const std::string& glob) { return GlobMatches(glob, reference); };
    return std::ranges::any_of(tenant.job_secrets, lists);
  });
}

void Bind(conf::Object& o, Tenant& tenant) {
  o.Required("name", tenant.name, ValidName());
  o.Optional("parent", tenant.parent, ValidName());
  o.Optional("models", tenant.models, conf::NotEmpty());
  o.Optional("endpoints", tenant.endpoints, conf::NotEmpty());
  o.Optional("limits", TenantLimits{&tenant.limits, &tenant.per_model, &tenant.body_memory});
  o.Optional("budget", conf::OneOrMany(tenant.budgets), conf::NotEmpty());
  o.Optional("parameters", tenant.parameters);
  o.Optional("store_content", conf::Choice(tenant.store_content, "policy", kStoreContent));
  o.Optional("priority", tenant.priority, ValidName());
  o.Optional("weight", tenant.weight, conf::Range{1U, kMaxShare});
  o.Optional("run_as", tenant.run_as, conf::NotEmpty());
  o.Optional("job_secrets", tenant.job_secrets);
  o.Optional("share_prefixes", conf::OneOrMany(tenant.share_prefixes), conf::NotEmpty());
  o.Optional("residency", tenant.residency);
  o.Optional("self_service", tenant.self_service);
  if (!o.reading()) return;
  if (tenant.share_prefixes.size() > 1)
    o.Error("must name one group; a prompt is cached for one group of tenants", "share_prefixes");
  for (const std::string& group : tenant.share_prefixes) {
    if (const std::string wrong = ValidName()(group); !wrong.empty()) o.Error(wrong, "share_prefixes");
  }
}

}  // namespace gateway::config
