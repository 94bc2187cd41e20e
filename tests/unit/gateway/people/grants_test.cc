#include "gateway/people/grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "gateway/people/approval.h"
#include "gateway/people/projects.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::GrantRequest;
using gateway::Grants;
using gateway::Member;
using gateway::Project;
using gateway::Projects;
using gateway::RequestState;
using gateway::RoleOver;
using gateway::TenantGrant;
using plugins::auth::Role;
using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class GrantsTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *gateway::OpenState(loop_, dir_.path());
    grants_ = std::make_unique<Grants>(loop_, *store_);
    EXPECT_TRUE(Await(grants_->Start()).ok());
    projects_ = std::make_unique<Projects>(loop_, *store_);
    EXPECT_TRUE(Await(projects_->Start()).ok());
  }
  void TearDown() override {
    grants_->Stop();
    projects_->Stop();
    loop_.Stop();
    loop_.Run();
  }
  template <class T>
  T Await(gateway::net::Task<T> task) {
    return gateway::net::Await(loop_, std::move(task));
  }
  size_t Events() { return Await(store_->List(gateway::store::kLedgerEvent))->objects.size(); }
  TenantGrant AGrant() const {
    return {.id = {},
            .tenant = "acme",
            .gives = {.models = {"large"}},
            .from = now_,
            .until = now_ + hours(1),
            .approved_by = "person:lead"};
  }
  GrantRequest ARequest() const {
    return {.id = {},
            .tenant = "acme",
            .wants = {.models = {"large"}},
            .until = now_ + hours(1),
            .reason = "a demo",
            .asked_by = "person:ada",
            .asked = now_,
            .expires = now_ + hours(1)};
  }

  tests::TempDir dir_;
  tests::TestLoop loop_{[](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; }};
  std::unique_ptr<gateway::store::Store> store_;
  std::unique_ptr<Grants> grants_;
  std::unique_ptr<Projects> projects_;
  const conf::TimePoint now_ = gateway::net::Now();
  int told_ = 0;
  std::vector<std::string> notices_;
};

TEST_F(GrantsTest, AGrantIsKeptWithItsEventAndTold) {
  grants_->OnChange([this] { ++told_; });
  grants_->OnNotice([this](const Grants::Notice& notice) { notices_.emplace_back(notice.event); });
  const auto given = Await(grants_->Give(AGrant()));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(*grants_->Find(given->id), *given);
  EXPECT_EQ(Events(), 1u);
  EXPECT_GE(told_, 1);
  EXPECT_THAT(notices_, ElementsAre("grant.give"));
}

TEST_F(GrantsTest, AGrantEndsOnce) {
  const auto given = Await(grants_->Give(AGrant()));
  const auto ended = Await(grants_->End(given->id, "person:lead", now_));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_FALSE(ended->InForce(now_));
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(grants_->End(given->id, "person:lead", now_)).status()));
  EXPECT_TRUE(absl::IsNotFound(Await(grants_->End("gr_none", "person:lead", now_)).status()));
}

// Seconds by the loop's clock: it looks each second.
TEST_F(GrantsTest, AGrantEndsByItselfAndIsRecordedOnce) {
  grants_->OnChange([this] { ++told_; });
  TenantGrant grant = AGrant();
  grant.until = gateway::net::Now() + std::chrono::milliseconds(200);
  const auto given = Await(grants_->Give(grant));
  ASSERT_TRUE(given.ok()) << given.status();
  const bool ended =
      Await(tests::Eventually(loop_, [&] { return grants_->Find(given->id)->ended.has_value(); }));
  EXPECT_TRUE(ended);
  EXPECT_EQ(grants_->Find(given->id)->ended_by, "");
  EXPECT_EQ(Events(), 2u) << "given and ended";
  EXPECT_GE(told_, 2);
}

TEST_F(GrantsTest, ALongGrantRemindsOnceBeforeItEnds) {
  grants_->OnNotice([this](const Grants::Notice& notice) { notices_.emplace_back(notice.event); });
  TenantGrant grant = AGrant();
  grant.from = now_ - hours(100);
  const auto given = Await(grants_->Give(grant));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_TRUE(Await(tests::Eventually(loop_, [&] { return notices_.size() == 2; })));
  EXPECT_TRUE(grants_->Find(given->id)->reminded);
  EXPECT_THAT(notices_, ElementsAre("grant.give", "grant.ends_soon"));
}

TEST_F(GrantsTest, AnApprovalGivesAndIsFinal) {
  const auto asked = Await(grants_->Ask(ARequest(), nullptr));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->state, RequestState::kPending);
  const auto approved = Await(grants_->Approve(asked->id, AGrant(), "have fun", now_));
  ASSERT_TRUE(approved.ok()) << approved.status();
  EXPECT_EQ(approved->state, RequestState::kApproved);
  ASSERT_NE(grants_->Find(approved->grant), nullptr);
  EXPECT_EQ(grants_->Find(approved->grant)->request, asked->id);
  const auto late = Await(grants_->Close(asked->id, RequestState::kDeclined, "person:lead", "no", now_));
  EXPECT_TRUE(absl::IsFailedPrecondition(late.status()));
}

TEST_F(GrantsTest, ARequestThatIsWithdrawnGivesNothing) {
  const auto asked = Await(grants_->Ask(ARequest(), nullptr));
  EXPECT_TRUE(Await(grants_->Close(asked->id, RequestState::kWithdrawn, "person:ada", {}, now_)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(grants_->Approve(asked->id, AGrant(), {}, now_)).status()));
  EXPECT_THAT(grants_->List(), IsEmpty());
}

TEST_F(GrantsTest, ARuleGivesAtOnce) {
  TenantGrant grant = AGrant();
  grant.approved_by = "rule:small";
  const auto asked = Await(grants_->Ask(ARequest(), &grant));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->state, RequestState::kApproved);
  EXPECT_EQ(asked->decided_by, "rule:small");
  EXPECT_THAT(grants_->List(), SizeIs(1));
}

TEST_F(GrantsTest, ARenewalMakesTheGrantLastLonger) {
  const auto given = Await(grants_->Give(AGrant()));
  GrantRequest request = ARequest();
  request.renews = given->id;
  request.wants = given->gives;
  request.until = now_ + hours(5);
  const auto asked = Await(grants_->Ask(request, nullptr));
  ASSERT_TRUE(asked.ok()) << asked.status();
  TenantGrant longer = AGrant();
  longer.until = now_ + hours(4);
  const auto approved = Await(grants_->Approve(asked->id, longer, {}, now_));
  ASSERT_TRUE(approved.ok()) << approved.status();
  EXPECT_EQ(approved->grant, given->id);
  EXPECT_THAT(grants_->List(), SizeIs(1));
  EXPECT_EQ(grants_->Find(given->id)->until, now_ + hours(4));
}

TEST_F(GrantsTest, AGrantThatWasChangedSinceIsNotRenewed) {
  const auto given = Await(grants_->Give(AGrant()));
  GrantRequest request = ARequest();
  request.renews = given->id;
  request.wants = given->gives;
  request.until = now_ + hours(5);
  const auto asked = Await(grants_->Ask(request, nullptr));
  ASSERT_TRUE(asked.ok()) << asked.status();
  const auto more = [](TenantGrant& grant) {
    grant.gives.devices = gateway::DeviceAllowance{.kind = "h100", .count = 8};
  };
  EXPECT_TRUE(Await(grants_->Change(given->id, more, "person:lead")).ok());
  TenantGrant longer = AGrant();
  longer.until = now_ + hours(4);
  const auto approved = Await(grants_->Approve(asked->id, longer, {}, now_));
  EXPECT_TRUE(absl::IsFailedPrecondition(approved.status())) << approved.status();
  EXPECT_EQ(grants_->Find(given->id)->until, given->until);
}

TEST_F(GrantsTest, AGrantThatHasEndedIsNotRenewed) {
  const auto given = Await(grants_->Give(AGrant()));
  GrantRequest request = ARequest();
  request.renews = given->id;
  request.wants = given->gives;
  const auto asked = Await(grants_->Ask(request, nullptr));
  EXPECT_TRUE(Await(grants_->End(given->id, "person:lead", now_)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(grants_->Approve(asked->id, AGrant(), {}, now_)).status()));
  EXPECT_EQ(grants_->FindRequest(asked->id)->state, RequestState::kPending);
}

TEST_F(GrantsTest, AChangedGrantIsToldAndRemindsAgain) {
  const auto given = Await(grants_->Give(AGrant()));
  grants_->OnNotice([this](const Grants::Notice& notice) { notices_.emplace_back(notice.event); });
  const auto changed = Await(grants_->Change(
      given->id,
      [&](TenantGrant& grant) {
        grant.until = now_ + hours(9);
        grant.gives.weight = 3;
      },
      "person:lead"));
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(grants_->Find(given->id)->gives.weight, 3u);
  EXPECT_THAT(notices_, ElementsAre("grant.change"));
  EXPECT_TRUE(Await(grants_->Change(given->id, [](TenantGrant&) {}, "person:lead")).ok());
  EXPECT_THAT(notices_, SizeIs(1)) << "nothing was changed";
}

TEST_F(GrantsTest, CommentsAreKeptWithTheirEvents) {
  const auto asked = Await(grants_->Ask(ARequest(), nullptr));
  const size_t events = Events();
  const auto commented =
      Await(grants_->Comment(asked->id, {.by = "person:lead", .at = now_, .text = "what for?"}));
  ASSERT_TRUE(commented.ok()) << commented.status();
  EXPECT_EQ(Events(), events + 1);
  ASSERT_THAT(grants_->FindRequest(asked->id)->comments, SizeIs(1));
  EXPECT_EQ(grants_->FindRequest(asked->id)->comments[0].text, "what for?");
  for (size_t i = 1; i < Grants::kMaxComments; ++i)
    EXPECT_TRUE(Await(grants_->Comment(asked->id, {.by = "person:ada", .at = now_, .text = "a demo"})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Await(grants_->Comment(asked->id, {.by = "person:ada", .at = now_, .text = "more"})).status()));
}

TEST_F(GrantsTest, DevicesAndCommentsAreReadAsTheyWereKept) {
  GrantRequest request = ARequest();
  request.id = "rq_1";
  request.wants = {.devices = gateway::DeviceAllowance{.kind = "h100", .count = 8}};
  request.renews = "gr_1";
  request.comments = {{.by = "person:ada", .at = now_, .text = "\"soon\""}};
  const auto read = gateway::DecodeRequest(gateway::EncodeRequest(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->wants, request.wants);
  EXPECT_EQ(read->renews, "gr_1");
  EXPECT_EQ(read->comments.at(0).text, request.comments[0].text);
  EXPECT_EQ(gateway::InWords(read->wants), "8 devices h100");
}

TEST_F(GrantsTest, OnePersonHasAtMostSoManyRequestsThatWait) {
  for (size_t i = 0; i < Grants::kMaxPendingOfPerson; ++i)
    ASSERT_TRUE(Await(grants_->Ask(ARequest(), nullptr)).ok()) << i;
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(grants_->Ask(ARequest(), nullptr)).status()));
}

TEST_F(GrantsTest, AnotherProcessSeesWhatThisOneChanges) {
  Grants other(loop_, *store_);
  EXPECT_TRUE(Await(other.Start()).ok());
  const auto given = Await(grants_->Give(AGrant()));
  EXPECT_TRUE(Await(other.End(given->id, "person:lead", now_)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(grants_->End(given->id, "person:lead", now_)).status()));
  other.Stop();
}

TEST_F(GrantsTest, TheEndOfATenantEndsWhatItHas) {
  ASSERT_TRUE(Await(projects_->Create({.path = "acme/x", .made = now_})).ok());
  TenantGrant grant = AGrant();
  grant.tenant = "acme/x";
  const auto given = Await(grants_->Give(grant));
  GrantRequest request = ARequest();
  request.tenant = "acme/x";
  const auto asked = Await(grants_->Ask(request, nullptr));
  ASSERT_TRUE(
      Await(projects_->Remove("acme/x", "person:lead", grants_->EndAllOf("acme/x", "person:lead", now_)))
          .ok());
  EXPECT_TRUE(Await(grants_->End(given->id, "person:lead", now_)).status().message().find("has ended") !=
              std::string::npos);
  EXPECT_EQ(grants_->FindRequest(asked->id)->state, RequestState::kDeclined);
}

TEST_F(GrantsTest, AProjectIsMadeOnceAndRemovedAfterThoseBelowIt) {
  ASSERT_TRUE(Await(projects_->Create({.path = "acme/x", .made = now_})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(projects_->Create({.path = "acme/x", .made = now_}))));
  ASSERT_TRUE(Await(projects_->Create({.path = "acme/x/y", .made = now_})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Await(projects_->Remove("acme/x", "ada", {}))));
  EXPECT_TRUE(Await(projects_->Remove("acme/x/y", "ada", {})).ok());
  EXPECT_TRUE(Await(projects_->Remove("acme/x", "ada", {})).ok());
  EXPECT_THAT(projects_->List(), IsEmpty());
}

TEST_F(GrantsTest, AMemberHasItsRoleUntilItIsRemoved) {
  const Member member{.tenant = "acme", .who = "ada@example.com", .role = Role::kLead, .added = now_};
  ASSERT_TRUE(Await(projects_->SetMember(member)).ok());
  const gateway::Person ada{.id = "person:corp:1", .email = "Ada@Example.com", .email_verified = true};
  EXPECT_THAT(projects_->RolesOf(ada), ElementsAre(RoleOver{Role::kLead, "acme"}));
  ASSERT_TRUE(Await(projects_->RemoveMember("acme", "ada@example.com", "root")).ok());
  EXPECT_THAT(projects_->RolesOf(ada), IsEmpty());
}

// Anybody can give an address to a provider that does not check it.
TEST(Members, AnAddressThatWasNotVerifiedIsNobodys) {
  const Member member{.tenant = "acme", .who = "ada@example.com"};
  EXPECT_FALSE(IsMember(member, {.id = "person:corp:1", .email = "ada@example.com"}));
  EXPECT_TRUE(IsMember(member, {.id = "person:corp:1", .email = "ada@example.com", .email_verified = true}));
  EXPECT_TRUE(gateway::IsMember({.tenant = "acme", .who = "person:corp:1"}, {.id = "person:corp:1"}));
}

TEST(Members, AreNamedByAnIdOrAnAddress) {
  EXPECT_EQ(*gateway::MemberName("Ada@Example.com"), "ada@example.com");
  EXPECT_EQ(*gateway::MemberName("person:corp:Ada"), "person:corp:Ada");
  for (const char* bad : {"", "ada", "person:", "@x", "a@", "a@b@c", "a b@c", "a|b@c"})
    EXPECT_FALSE(gateway::MemberName(bad).ok()) << bad;
}

gateway::Config WithRule() {
  gateway::Config config;
  config.tenants.emplace_back().name = "acme";
  gateway::config::ApprovalRule rule;
  rule.name = "small";
  rule.tenant = "acme";
  rule.models = {"chat-*"};
  rule.limits.requests_per_minute = 600;
  rule.budget.emplace().micro_usd = 100'000'000;
  config.people.requests.approve.push_back(rule);
  return config;
}

TEST(Approval, ARuleApprovesWhatItNamesUpToItsAmounts) {
  const conf::TimePoint now = gateway::net::Now();
  const gateway::Config config = WithRule();
  const auto approves = [&](gateway::Allowance wants, const char* tenant = "acme", int hours_long = 24) {
    const GrantRequest request{
        .id = {}, .tenant = tenant, .wants = std::move(wants), .until = now + hours(hours_long)};
    return gateway::RuleFor(config, request, now) != nullptr;
  };
  EXPECT_TRUE(approves({.models = {"chat-small"}}));
  EXPECT_TRUE(approves({.models = {"chat-small"}}, "acme/search"));
  EXPECT_TRUE(approves({.limits = R"({"requests_per_minute":600})"}));
  EXPECT_TRUE(approves({.limits = R"({"budget":{"usd":100,"period":"month"}})"}));
  EXPECT_FALSE(approves({.models = {"chat-small", "image"}}));
  EXPECT_FALSE(approves({.models = {"chat-small"}}, "other"));
  EXPECT_FALSE(approves({.models = {"chat-small"}}, "acme", 24 * 31));
  EXPECT_FALSE(approves({.limits = R"({"requests_per_minute":601})"}));
  EXPECT_FALSE(approves({.limits = R"({"tokens_per_minute":1})"}));
  EXPECT_FALSE(approves({.limits = R"({"budget":{"usd":100,"period":"day"}})"}));
  EXPECT_FALSE(approves({.weight = 2}));
}

}  // namespace
