#include "gateway/people/overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using gateway::Project;
using gateway::TenantGrant;
using gateway::config::Tenant;
using router::limits::Dimension;
using router::limits::LimitSpec;
using router::limits::Period;
using std::chrono::hours;
using testing::ElementsAre;
using testing::Optional;

const conf::TimePoint kNow = conf::TimePoint() + hours(24 * 365 * 50);

Tenant TenantOf(const char* name, const char* parent, const char* model) {
  Tenant tenant;
  tenant.name = name;
  tenant.parent = parent;
  tenant.models = {model};
  return tenant;
}

std::vector<Tenant> Configured() {
  Tenant acme = TenantOf("acme", "", "*");
  acme.limits.requests_per_minute = 600;
  acme.budgets.emplace_back().micro_usd = 50'000'000;
  acme.weight = 4;
  Tenant search = TenantOf("search", "acme", "small");
  search.limits.requests_per_minute = 100;
  return {acme, search};
}

TenantGrant GrantOf(gateway::Allowance gives, conf::TimePoint from, conf::TimePoint until) {
  return {.id = "gr_1", .tenant = "acme/search", .gives = std::move(gives), .from = from, .until = until};
}

std::vector<Tenant> With(const std::vector<TenantGrant>& grants, conf::TimePoint now = kNow) {
  std::vector<Tenant> tenants = Configured();
  gateway::AddGrants(tenants, grants, now);
  return tenants;
}

TEST(Overlay, AProjectStandsBelowItsParentWithItsOwnLimits) {
  const std::vector<Project> projects = {
      {.path = "acme/search/b/c", .made = kNow},
      {.path = "acme/search/b", .limits = R"({"requests_per_minute":10,"budget":{"usd":5}})", .made = kNow}};
  const std::vector<Tenant> tenants = gateway::WithProjects(Configured(), projects);
  ASSERT_EQ(tenants.size(), 4u);
  EXPECT_EQ(PathOf(tenants, tenants[2]), "acme/search/b");
  EXPECT_EQ(PathOf(tenants, tenants[3]), "acme/search/b/c");
  EXPECT_TRUE(tenants[2].at_run_time);
  EXPECT_THAT(tenants[2].limits.requests_per_minute, Optional(10u));
  ASSERT_EQ(tenants[2].budgets.size(), 1u);
  EXPECT_THAT(tenants[2].budgets[0].micro_usd, Optional(5'000'000));
}

TEST(Overlay, TheConfigurationWinsAndAnOrphanIsNotInForce) {
  const std::vector<Project> projects = {{.path = "acme/search", .disabled = true, .made = kNow},
                                         {.path = "gone/x", .made = kNow}};
  const std::vector<Tenant> tenants = gateway::WithProjects(Configured(), projects);
  ASSERT_EQ(tenants.size(), 2u);
  EXPECT_FALSE(tenants[1].disabled);
}

TEST(Overlay, LimitsThatCannotBeReadDisableTheProject) {
  const std::vector<Project> projects = {{.path = "acme/x", .limits = "{\"requests\":1}", .made = kNow}};
  EXPECT_TRUE(gateway::WithProjects(Configured(), projects).back().disabled);
}

TEST(Overlay, AGrantCountsFromItsBeginningToItsEnd) {
  const TenantGrant grant = GrantOf(
      {.models = {"large"}, .limits = R"({"requests_per_minute":300})", .weight = 7}, kNow, kNow + hours(1));
  const Tenant during = With({grant})[1];
  EXPECT_THAT(*during.models, ElementsAre("small", "large"));
  EXPECT_THAT(during.limits.requests_per_minute, Optional(300u));
  EXPECT_EQ(during.weight, 7u);
  for (const conf::TimePoint outside : {kNow - hours(1), kNow + hours(1)}) {
    const Tenant tenant = With({grant}, outside)[1];
    EXPECT_THAT(*tenant.models, ElementsAre("small"));
    EXPECT_THAT(tenant.limits.requests_per_minute, Optional(100u));
    EXPECT_EQ(tenant.weight, 1u);
  }
}

TEST(Overlay, AGrantThatWasEndedGivesNothing) {
  TenantGrant grant = GrantOf({.limits = R"({"requests_per_minute":300})"}, kNow, kNow + hours(1));
  grant.ended = kNow;
  EXPECT_THAT(With({grant})[1].limits.requests_per_minute, Optional(100u));
}

TEST(Overlay, OfTwoGrantsTheHigherAmountCountsAndNoneLowersOrAddsALimit) {
  const auto of = [](const char* limits) { return GrantOf({.limits = limits}, kNow, kNow + hours(1)); };
  const Tenant tenant = With({of(R"({"requests_per_minute":300})"), of(R"({"requests_per_minute":200})"),
                              of(R"({"requests_per_minute":50})"), of(R"({"concurrency":3})")})[1];
  EXPECT_THAT(tenant.limits.requests_per_minute, Optional(300u));
  EXPECT_FALSE(tenant.limits.concurrency.has_value());
}

TEST(Overlay, AGrantRaisesTheBudgetOfItsPeriodOnly) {
  TenantGrant grant = GrantOf({.limits = R"({"budget":{"usd":80,"period":"month"}})"}, kNow, kNow + hours(1));
  grant.tenant = "acme";
  EXPECT_THAT(With({grant})[0].budgets[0].micro_usd, Optional(80'000'000));
  grant.gives.limits = R"({"budget":{"usd":80,"period":"day"}})";
  EXPECT_THAT(With({grant})[0].budgets[0].micro_usd, Optional(50'000'000));
}

TEST(Overlay, TheMostIsTheLeastOfTheTenantAndThoseAbove) {
  const std::vector<Tenant> tenants = Configured();
  const LimitSpec requests{Dimension::kRequests, 0};
  EXPECT_THAT(gateway::MostOf(tenants, "acme/search", requests), Optional(100));
  EXPECT_THAT(gateway::MostOf(tenants, "acme", requests), Optional(600));
  EXPECT_EQ(gateway::MostOf(tenants, "acme", {Dimension::kTokens, 0}), std::nullopt);
  // What a month may cost, a day may cost at most.
  EXPECT_THAT(gateway::MostOf(tenants, "acme/search", {Dimension::kBudget, 0, Period::kDay}),
              Optional(50'000'000));
}

// Invariant 12: a tenant made at run time may have the name of another's tenant and nothing of it.
TEST(Overlay, ANameThatAnotherTenantHasGivesNothingOfIt) {
  std::vector<Tenant> configured = Configured();
  configured.push_back(TenantOf("payroll", "", "*"));
  configured.back().job_secrets = {"env:PAY_*"};
  const std::vector<Project> projects = {{.path = "acme/payroll", .made = kNow}};
  const std::vector<Tenant> tenants = gateway::WithProjects(configured, projects);
  EXPECT_TRUE(MayNameSecret(tenants, "payroll", "env:PAY_KEY"));
  EXPECT_FALSE(MayNameSecret(tenants, "acme/payroll", "env:PAY_KEY"));
  EXPECT_EQ(gateway::TenantAt(tenants, "payroll"), &tenants[2]);
  EXPECT_EQ(gateway::TenantAt(tenants, "acme/payroll"), &tenants[3]);
}

}  // namespace
