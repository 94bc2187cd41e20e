#include "gateway/people/permissions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace {

using gateway::Authority;
using gateway::IsWithin;
using gateway::Permission;
using gateway::PermissionRow;
using gateway::PermissionTable;
using plugins::auth::Right;
using plugins::auth::Role;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Permissions, TheTableHasARowForEachInOrder) {
  const auto table = PermissionTable();
  ASSERT_EQ(table.size(), gateway::kPermissions);
  std::set<std::string_view> names;
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(table[i].permission), i) << table[i].name;
    EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
    EXPECT_FALSE(table[i].about.empty());
    EXPECT_FALSE(table[i].roles.empty());
  }
}

// A role over everything that is higher may do what the one below it may, and an admin everything.
TEST(Permissions, ViewersOperatorsAndAdminsIncludeEachOther) {
  for (const PermissionRow& row : PermissionTable()) {
    const auto gives = [&](Role role) { return Authority({{role, {}}}).MayEverywhere(row.permission); };
    EXPECT_TRUE(gives(Role::kAdmin)) << row.name;
    EXPECT_TRUE(!gives(Role::kViewer) || gives(Role::kOperator) || row.permission == Permission::kSubmitJobs)
        << row.name;
    EXPECT_FALSE(gives(Role::kMember)) << row.name;
    EXPECT_FALSE(gives(Role::kLead)) << row.name;
  }
}

TEST(Permissions, ARoleOverATenantReachesBelowItAndNowhereElse) {
  const Authority lead({{Role::kLead, "acme/search"}});
  EXPECT_TRUE(lead.May(Permission::kChangeKeys));
  EXPECT_TRUE(lead.MayFor(Permission::kChangeKeys, "acme/search"));
  EXPECT_TRUE(lead.MayFor(Permission::kChangeKeys, "acme/search/team"));
  EXPECT_FALSE(lead.MayFor(Permission::kChangeKeys, "acme"));
  EXPECT_FALSE(lead.MayFor(Permission::kChangeKeys, "acme/searchers"));
  EXPECT_FALSE(lead.MayFor(Permission::kChangeKeys, "other"));
  EXPECT_FALSE(lead.MayFor(Permission::kChangeKeys, ""));
  EXPECT_FALSE(lead.MayEverywhere(Permission::kSeeUsage));
  EXPECT_FALSE(lead.May(Permission::kReadAudit));
}

TEST(Permissions, AMemberChangesKeysOfItsOwnOnly) {
  const Authority member({{Role::kMember, "acme"}});
  EXPECT_TRUE(member.MayFor(Permission::kChangeOwnKeys, "acme"));
  EXPECT_FALSE(member.May(Permission::kChangeKeys));
  EXPECT_FALSE(member.May(Permission::kSeeKeys));
  EXPECT_FALSE(member.May(Permission::kSubmitJobs));
}

TEST(Permissions, AViewerAsksNoModels) {
  EXPECT_FALSE(Authority({{Role::kViewer, {}}}).May(Permission::kUsePlayground));
  const Authority member({{Role::kMember, "acme"}});
  EXPECT_TRUE(member.MayFor(Permission::kUsePlayground, "acme"));
  EXPECT_FALSE(member.MayFor(Permission::kUsePlayground, "other"));
}

TEST(Permissions, AnApplicationsKeySeesItselfOnly) {
  const Authority key({{Role::kNone, "acme"}});
  EXPECT_THAT(key.all(), ElementsAre(Permission::kSeeSelf));
}

TEST(Permissions, ARightAddsToARole) {
  const Authority viewer({{Role::kViewer, {}}}, {Right::kSubmitJobs});
  EXPECT_TRUE(viewer.MayFor(Permission::kSubmitJobs, "acme"));
  EXPECT_FALSE(Authority({{Role::kViewer, {}}}).May(Permission::kSubmitJobs));
  EXPECT_FALSE(Authority({{Role::kOperator, {}}}).May(Permission::kSubmitJobs));
}

TEST(Permissions, NobodyMayDoAnything) {
  EXPECT_THAT(Authority().all(), IsEmpty());
  EXPECT_EQ(Authority().InWords(), "no role");
}

// A role over a tenant whose tenant was lost must not become one over everything.
TEST(Permissions, ARoleOverNoTenantGivesNothing) {
  const Authority lead({{Role::kLead, ""}});
  EXPECT_FALSE(lead.MayFor(Permission::kSeeKeys, "acme"));
  EXPECT_FALSE(lead.MayFor(Permission::kSeeKeys, ""));
}

TEST(Permissions, TenantsAreToldOnceFromTheHighest) {
  const Authority some({{Role::kMember, "b"}, {Role::kLead, "a/x"}, {Role::kMember, "a"}});
  EXPECT_THAT(some.TenantsOf(Permission::kSeeUsage), ElementsAre("a", "b"));
  EXPECT_THAT(some.TenantsOf(Permission::kChangeKeys), ElementsAre("a/x"));
  EXPECT_THAT(Authority({{Role::kViewer, {}}}).TenantsOf(Permission::kSeeUsage), IsEmpty());
}

TEST(Permissions, WordsNameRolesAndRights) {
  EXPECT_EQ(gateway::WhoMay(Permission::kMaintain), "the role operator or admin");
  EXPECT_EQ(gateway::WhoMay(Permission::kSubmitJobs), "the role lead or admin, or the right submit_jobs");
  EXPECT_EQ(Authority({{Role::kLead, "a"}, {Role::kMember, "b"}}).InWords(),
            "the role lead over a and the role member over b");
}

TEST(Permissions, ATenantIsWithinItselfAndThoseAbove) {
  EXPECT_TRUE(IsWithin("a/b", "a"));
  EXPECT_TRUE(IsWithin("a", "a"));
  EXPECT_TRUE(IsWithin("a", ""));
  EXPECT_FALSE(IsWithin("ab", "a"));
  EXPECT_FALSE(IsWithin("a", "a/b"));
}

}  // namespace
