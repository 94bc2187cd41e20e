#include "gateway/people/approval.h"

#include <algorithm>

#include "gateway/people/key_limits.h"
#include "gateway/people/permissions.h"

namespace gateway {
namespace {

namespace limits = router::limits;

bool AtMost(int64_t amount, const auto& most) {
  return most && amount <= static_cast<int64_t>(*most);
}

bool Approves(const config::ApprovalRule& rule, const limits::LimitSpec& limit) {
  const bool same_period =
      rule.budget && limits::PeriodName(limit.period) == config::Name(rule.budget->period);
  switch (limit.dimension) {
    case limits::Dimension::kRequests:
      return AtMost(limit.capacity, rule.limits.requests_per_minute);
    case limits::Dimension::kTokens:
      return AtMost(limit.capacity, rule.limits.tokens_per_minute);
    case limits::Dimension::kInputTokens:
      return AtMost(limit.capacity, rule.limits.input_tokens_per_minute);
    case limits::Dimension::kOutputTokens:
      return AtMost(limit.capacity, rule.limits.output_tokens_per_minute);
    case limits::Dimension::kConcurrency:
      return AtMost(limit.capacity, rule.limits.concurrency);
    case limits::Dimension::kBudget:
      return same_period && AtMost(limit.capacity, rule.budget->micro_usd);
    case limits::Dimension::kTokenBudget:
      return same_period && AtMost(limit.capacity, rule.budget->tokens);
    case limits::Dimension::kDeviceBudget:
      break;
  }
  return false;
}

bool Approves(const config::ApprovalRule& rule, const Allowance& wants) {
  const auto named = [&](const std::string& model) {
    return std::ranges::any_of(rule.models,
                               [&](const std::string& glob) { return config::GlobMatches(glob, model); });
  };
  if (!std::ranges::all_of(wants.models, named)) return false;
  if (wants.devices) return false;  // they are taken from everyone: a person decides
  if (wants.weight && !AtMost(*wants.weight, rule.weight)) return false;
  if (wants.limits.empty()) return true;
  const auto amounts = ParseKeyLimits(wants.limits);
  return amounts.ok() &&
         std::ranges::all_of(*amounts, [&](const limits::LimitSpec& limit) { return Approves(rule, limit); });
}

}  // namespace

const config::ApprovalRule* RuleFor(const Config& config, const GrantRequest& request, conf::TimePoint now) {
  for (const config::ApprovalRule& rule : config.people.requests.approve) {
    const std::optional<std::string> tenant = TenantPath(config, rule.tenant);
    if (!tenant || !IsWithin(request.tenant, *tenant)) continue;
    if (request.until - request.from.value_or(now) > rule.longest) continue;
    if (Approves(rule, request.wants)) return &rule;
  }
  return nullptr;
}

}  // namespace gateway
