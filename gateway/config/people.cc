#include "gateway/config/people.h"

#include <algorithm>

#include "conf/reader.h"

namespace gateway::config {
namespace {

using conf::NotEmpty;
using conf::Range;

constexpr conf::Duration kShortest = std::chrono::minutes(1);
constexpr conf::Duration kLongest = std::chrono::days(90);
constexpr conf::Duration kLongestGrant = std::chrono::days(366);

}  // namespace

static void Bind(conf::Object& o, RoleRule& rule) {
  o.Optional("claim", rule.claim, NotEmpty());
  o.Required("value", rule.value, NotEmpty());
  o.Required("role", rule.role);
  o.Optional("tenant", rule.tenant, NotEmpty());
  o.Optional("rights", rule.rights);
  if (!o.reading() || rule.role == plugins::auth::Role::kNone) return;
  if (IsOfTenant(rule.role) && !o.Has("tenant")) {
    o.Error("is over a tenant: say which by tenant, or give viewer, operator or admin", "role");
  } else if (!IsOfTenant(rule.role) && o.Has("tenant")) {
    o.Error("has no effect: the role is over the whole gateway; give member or lead for one tenant",
            "tenant");
  }
}

static void Bind(conf::Object& o, Provider& provider) {
  o.Required("name", provider.name, ValidName());
  o.Optional("label", provider.label, NotEmpty());
  o.Required("issuer", provider.issuer);
  o.Required("client_id", provider.client_id, NotEmpty());
  o.Optional("client_secret", provider.client_secret);
  o.Optional("scopes", provider.scopes, NotEmpty());
  o.Optional("algorithms", conf::OneOrMany(provider.algorithms), NotEmpty());
  o.Required("roles", provider.roles, NotEmpty());
  o.Optional("tls", provider.tls);
  RefuseIdleTls(o, provider.issuer, provider.tls);
  if (!o.reading()) return;
  if (!provider.issuer.empty() && !provider.issuer.tls() && !IsLoopbackHost(provider.issuer.host))
    o.Error("must be an https URL; over http, an attacker on the network could sign in as anybody", "issuer");
  if (std::ranges::find(provider.scopes, "openid") == provider.scopes.end())
    o.Error("must have openid, without which the provider gives no ID token", "scopes");
}

static void Bind(conf::Object& o, PeopleSessions& sessions) {
  o.Optional("idle", sessions.idle, Range{kShortest, kLongest});
  o.Optional("lifetime", sessions.lifetime, Range{kShortest, kLongest});
  if (o.reading() && o.Has("idle") && sessions.idle > sessions.lifetime)
    o.Error("must not be longer than lifetime", "idle");
}

static void Bind(conf::Object& o, MostBudget& budget) {
  o.Optional("usd", conf::Money(budget.micro_usd));
  o.Optional("tokens", budget.tokens);
  o.Optional("period", conf::Choice(budget.period, "period", PeriodWords()));
  if (o.reading() && !o.Has("usd") && !o.Has("tokens")) o.Error("give usd or tokens");
}

static void Bind(conf::Object& o, ApprovalRule& rule) {
  o.Required("name", rule.name, ValidName());
  o.Required("tenant", rule.tenant, NotEmpty());
  o.Optional("models", rule.models, NotEmpty());
  o.Optional("limits", rule.limits);
  o.Optional("budget", rule.budget);
  o.Optional("weight", rule.weight, Range{1U, kMaxShare});
  o.Optional("longest", rule.longest, Range{kShortest, kLongestGrant});
  if (!o.reading()) return;
  if (!o.Has("models") && !o.Has("limits") && !o.Has("budget") && !o.Has("weight"))
    o.Error("approves nothing: give models, limits, budget or weight");
}

static void Bind(conf::Object& o, Requests& requests) {
  o.Optional("expire", requests.expire, Range{conf::Duration(std::chrono::hours(1)), kLongest});
  o.Optional("approve", requests.approve);
}

static void Bind(conf::Object& o, Webhook& webhook) {
  o.Required("url", webhook.url);
  o.Optional("secret", webhook.secret);
  o.Optional("tls", webhook.tls);
  RefuseIdleTls(o, webhook.url, webhook.tls);
}

void Bind(conf::Object& o, People& people) {
  o.Optional("url", people.url);
  o.Optional("api_url", people.api_url);
  o.Optional("allow", conf::OneOrMany(people.allow), conf::NotEmpty());
  o.Optional("insecure", people.insecure);
  o.Optional("sessions", people.sessions);
  o.Optional("providers", people.providers);
  o.Optional("requests", people.requests);
  o.Optional("webhook", people.webhook);
  o.Optional("budget_thresholds", people.budget_thresholds);
  if (!o.reading()) return;
  for (const uint32_t percent : people.budget_thresholds) {
    if (percent < 1 || percent > 100) o.Error("must be percentages from 1 to 100", "budget_thresholds");
  }
  if (!people.url.path.empty()) o.Error("must have no path: scheme, host and port only", "url");
  if (!people.url.empty() && !people.url.tls() && !IsLoopbackHost(people.url.host))
    o.Error("must be an https URL; over http, sessions could be read on the network", "url");
  if (!people.providers.empty() && !o.Has("url"))
    o.Error("need the address to which people come back: give url, such as https://tidegate.example.com",
            "providers");
}

}  // namespace gateway::config
