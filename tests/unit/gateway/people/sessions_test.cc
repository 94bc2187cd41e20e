#include "gateway/people/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::Person;
using gateway::Session;
using gateway::Sessions;
using gateway::SessionTerms;
using plugins::auth::Role;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class SessionsTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *gateway::OpenState(loop_, dir_.path());
    sessions_ = Open();
  }
  void TearDown() override {
    sessions_->Stop();
    if (other_) other_->Stop();
    loop_.Stop();
    loop_.Run();
  }

  std::unique_ptr<Sessions> Open() {
    auto sessions = std::make_unique<Sessions>(loop_, *store_, [this] { return terms_; });
    EXPECT_TRUE(Await(sessions->Start()).ok());
    return sessions;
  }
  template <class T>
  T Await(gateway::net::Task<T> task) {
    return gateway::net::Await(loop_, std::move(task));
  }
  Sessions::Begun Begin(const std::string& person, conf::TimePoint at) {
    auto begun = Await(sessions_->Begin(Ada(person), {"10.0.0.1", "Browser\n1"}, {}, at));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return *begun;
  }
  static Person Ada(const std::string& id) {
    return {.id = id, .name = "Ada", .provider = "corp", .roles = {{Role::kLead, "acme"}}};
  }

  tests::TempDir dir_;
  tests::TestLoop loop_{[](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; }};
  std::unique_ptr<gateway::store::Store> store_;
  SessionTerms terms_{.idle = hours(1), .lifetime = hours(8)};
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Sessions> other_;
  const conf::TimePoint now_ = gateway::net::Now();
};

TEST_F(SessionsTest, ASessionIsFoundByItsSecretAndByNothingElse) {
  const Sessions::Begun begun = Begin("person:corp:ada", now_);
  const Session* found = sessions_->Find(begun.secret, now_);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->person, Ada("person:corp:ada"));
  EXPECT_EQ(found->client, "Browser1");
  EXPECT_EQ(sessions_->Find(begun.session.id, now_), nullptr);
  EXPECT_EQ(sessions_->Find(begun.secret + "x", now_), nullptr);
  EXPECT_EQ(sessions_->Find("", now_), nullptr);
}

TEST_F(SessionsTest, TheStoreHasNoSecret) {
  const Sessions::Begun begun = Begin("person:corp:ada", now_);
  const auto listing = Await(store_->List(gateway::store::kSession));
  ASSERT_EQ(listing->objects.size(), 1u);
  EXPECT_EQ(listing->objects[0].id.find(begun.secret), std::string::npos);
  EXPECT_EQ(listing->objects[0].body.find(begun.secret), std::string::npos);
}

TEST_F(SessionsTest, ASessionEndsWhenItIsIdleAndAtTheEndOfItsLife) {
  const Sessions::Begun begun = Begin("person:corp:ada", now_);
  EXPECT_NE(sessions_->Find(begun.secret, now_ + minutes(59)), nullptr);
  EXPECT_NE(sessions_->Find(begun.secret, now_ + minutes(110)), nullptr) << "each call keeps it alive";
  EXPECT_EQ(sessions_->Find(begun.secret, now_ + minutes(171)), nullptr);
  const Sessions::Begun busy = Begin("person:corp:bob", now_);
  for (int i = 1; i < 16; ++i) ASSERT_NE(sessions_->Find(busy.secret, now_ + i * minutes(30)), nullptr) << i;
  EXPECT_EQ(sessions_->Find(busy.secret, now_ + hours(8)), nullptr);
}

TEST_F(SessionsTest, ASessionIsOpenByItsPublicIdUntilItEnds) {
  const Sessions::Begun begun = Begin("person:corp:ada", now_);
  EXPECT_TRUE(sessions_->IsOpen(begun.session.id, now_));
  EXPECT_FALSE(sessions_->IsOpen(begun.session.id, now_ + hours(8)));
  EXPECT_FALSE(sessions_->IsOpen("", now_));
  EXPECT_TRUE(Await(sessions_->End(begun.session.id)).ok());
  EXPECT_FALSE(sessions_->IsOpen(begun.session.id, now_));
}

TEST_F(SessionsTest, SessionsOutliveTheGatewayAndEndForAllAtOnce) {
  const Sessions::Begun begun = Begin("person:corp:ada", now_);
  other_ = Open();
  ASSERT_NE(other_->Find(begun.secret, now_), nullptr);
  EXPECT_TRUE(Await(sessions_->End(begun.session.id)).ok());
  EXPECT_EQ(sessions_->Find(begun.secret, now_), nullptr);
  EXPECT_TRUE(absl::IsNotFound(Await(other_->End(begun.session.id)).status()));
  EXPECT_EQ(other_->Find(begun.secret, now_), nullptr);
}

TEST_F(SessionsTest, OnePersonHasAtMostSoManySessions) {
  std::vector<Sessions::Begun> all;
  for (size_t i = 0; i <= Sessions::kMaxOfPerson; ++i)
    all.push_back(Begin("person:corp:ada", now_ + seconds(static_cast<int64_t>(i))));
  EXPECT_EQ(sessions_->List(now_).size(), Sessions::kMaxOfPerson);
  EXPECT_EQ(sessions_->Find(all.front().secret, now_), nullptr) << "the oldest ends";
  EXPECT_NE(sessions_->Find(all.back().secret, now_), nullptr);
}

TEST_F(SessionsTest, ACodeWorksOnceAndNotAfterItsEnd) {
  const auto code = Await(sessions_->MakeCode(
      {.person = Ada("person:root"), .ends = now_ + minutes(1), .session_ends = now_ + hours(2)}));
  ASSERT_TRUE(code.ok());
  const auto redeemed = Await(sessions_->RedeemCode(*code, now_));
  ASSERT_TRUE(redeemed.ok()) << redeemed.status();
  EXPECT_EQ(redeemed->person.id, "person:root");
  EXPECT_EQ(redeemed->session_ends, now_ + hours(2));
  EXPECT_TRUE(absl::IsNotFound(Await(sessions_->RedeemCode(*code, now_)).status()));
  const auto late = Await(sessions_->MakeCode({.person = Ada("person:root"), .ends = now_ + minutes(1)}));
  EXPECT_TRUE(absl::IsNotFound(Await(sessions_->RedeemCode(*late, now_ + minutes(1))).status()));
  EXPECT_TRUE(absl::IsNotFound(Await(sessions_->RedeemCode("nothing", now_)).status()));
}

TEST_F(SessionsTest, ThatAnAdminHasSignedInIsRememberedWhenTheSessionIsGone) {
  Begin("person:corp:ada", now_);
  EXPECT_FALSE(sessions_->HadAdmin()) << "a lead is none";
  const auto admin =
      Await(sessions_->Begin({.id = "person:corp:bob", .roles = {{Role::kAdmin, {}}}}, {}, {}, now_));
  ASSERT_TRUE(admin.ok()) << admin.status();
  EXPECT_TRUE(sessions_->HadAdmin());
  ASSERT_TRUE(Await(sessions_->End(admin->session.id)).ok());
  EXPECT_TRUE(sessions_->HadAdmin());
  other_ = Open();
  EXPECT_TRUE(other_->HadAdmin()) << "also after a restart";
}

TEST_F(SessionsTest, ASessionThatCannotBeReadAdmitsNobody) {
  const std::string secret = gateway::NewSecret();
  std::vector<gateway::store::Write> writes;
  writes.push_back(gateway::store::Write::Create(gateway::store::kSession, gateway::StoredName(secret),
                                                 R"({"id":"x","person":{"id":"p","powers":["all"]}})"));
  ASSERT_TRUE(Await(store_->Commit(std::move(writes))).ok());
  other_ = Open();
  EXPECT_EQ(other_->Find(secret, now_), nullptr);
}

}  // namespace
