#include "gateway/people/terminal_sign_ins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::Session;
using gateway::Sessions;
using gateway::TerminalSignIns;
using plugins::auth::Role;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class TerminalSignInsTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *gateway::OpenState(loop_, dir_.path());
    sessions_ = std::make_unique<Sessions>(loop_, *store_, [] { return gateway::SessionTerms(); });
    ASSERT_TRUE(Await(sessions_->Start()).ok());
    requests_ = std::make_unique<TerminalSignIns>(*store_, *sessions_);
  }
  void TearDown() override {
    sessions_->Stop();
    loop_.Stop();
    loop_.Run();
  }

  template <class T>
  T Await(gateway::net::Task<T> task) {
    return gateway::net::Await(loop_, std::move(task));
  }
  TerminalSignIns::Begun Begin(const std::string& address = "10.0.0.1") {
    auto begun = Await(requests_->Begin({.address = address, .agent = "tidegate of ada"}, now_));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return *begun;
  }
  Session Browser() {
    auto begun =
        Await(sessions_->Begin({.id = "person:corp:ada", .name = "Ada", .roles = {{Role::kLead, "acme"}}},
                               {.address = "10.0.0.2", .agent = "Browser"}, {}, now_));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun->session;
  }

  tests::TempDir dir_;
  tests::TestLoop loop_{[](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; }};
  std::unique_ptr<gateway::store::Store> store_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<TerminalSignIns> requests_;
  const conf::TimePoint now_ = gateway::net::Now();
};

TEST_F(TerminalSignInsTest, AConfirmedCodeGivesOneSessionWithThePersonsRoles) {
  const TerminalSignIns::Begun begun = Begin();
  const auto waiting = Await(requests_->Redeem(begun.code, begun.secret, now_));
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_FALSE(waiting->has_value());
  const Session browser = Browser();
  const auto confirmed = Await(requests_->Confirm(begun.code, browser, now_));
  ASSERT_TRUE(confirmed.ok()) << confirmed.status();
  EXPECT_EQ(confirmed->client, "tidegate of ada");
  const auto redeemed = Await(requests_->Redeem(begun.code, begun.secret, now_ + seconds(2)));
  ASSERT_TRUE(redeemed.ok()) << redeemed.status();
  ASSERT_TRUE(redeemed->has_value());
  const Session& session = (*redeemed)->session;
  EXPECT_EQ(session.person, browser.person);
  EXPECT_TRUE(session.command_line);
  EXPECT_EQ(session.address, "10.0.0.1");
  EXPECT_EQ(session.ends, browser.ends);
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Redeem(begun.code, begun.secret, now_)).status()));
}

TEST_F(TerminalSignInsTest, AnotherSecretGetsNothing) {
  const TerminalSignIns::Begun begun = Begin();
  ASSERT_TRUE(Await(requests_->Confirm(begun.code, Browser(), now_)).ok());
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Redeem(begun.code, "x", now_)).status()));
  EXPECT_TRUE(Await(requests_->Redeem(begun.code, begun.secret, now_)).ok());
}

TEST_F(TerminalSignInsTest, ACodeEndsAfterFiveMinutes) {
  const TerminalSignIns::Begun begun = Begin();
  const conf::TimePoint later = now_ + TerminalSignIns::kLife;
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Confirm(begun.code, Browser(), later)).status()));
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Redeem(begun.code, begun.secret, later)).status()));
}

TEST_F(TerminalSignInsTest, ACodeIsConfirmedOnce) {
  const TerminalSignIns::Begun begun = Begin();
  ASSERT_TRUE(Await(requests_->Confirm(begun.code, Browser(), now_)).ok());
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Confirm(begun.code, Browser(), now_)).status()));
}

TEST_F(TerminalSignInsTest, ARefusedCommandLineLearnsIt) {
  const TerminalSignIns::Begun begun = Begin();
  ASSERT_TRUE(Await(requests_->Refuse(begun.code, "person:corp:ada", now_)).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Await(requests_->Redeem(begun.code, begun.secret, now_)).status()));
  EXPECT_TRUE(absl::IsNotFound(Await(requests_->Redeem(begun.code, begun.secret, now_)).status()));
}

TEST_F(TerminalSignInsTest, ManyWrongCodesAreRefusedForAWhile) {
  const TerminalSignIns::Begun begun = Begin();
  for (int i = 0; i < TerminalSignIns::kMostWrong; ++i)
    EXPECT_TRUE(absl::IsNotFound(Await(requests_->Find("BBBB-BBBB", "person:m", now_)).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Await(requests_->Find(begun.code, "person:m", now_)).status()));
  EXPECT_TRUE(Await(requests_->Find(begun.code, "person:other", now_)).ok());
  EXPECT_FALSE(absl::IsResourceExhausted(
      Await(requests_->Find(begun.code, "person:m", now_ + TerminalSignIns::kLife)).status()));
}

TEST_F(TerminalSignInsTest, OneAddressCannotFillTheStore) {
  for (size_t i = 0; i < TerminalSignIns::kMostOfAddress; ++i) Begin();
  const auto refused = Await(requests_->Begin({.address = "10.0.0.1"}, now_));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  Begin("10.0.0.9");
  const auto later = Await(requests_->Begin({.address = "10.0.0.1"}, now_ + TerminalSignIns::kLife));
  EXPECT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(Await(store_->List(gateway::store::kTerminalSignIn))->objects.size(), 1u);
}

TEST_F(TerminalSignInsTest, TheStoreHasNeitherCodeNorSecret) {
  const TerminalSignIns::Begun begun = Begin();
  ASSERT_TRUE(Await(requests_->Confirm(begun.code, Browser(), now_)).ok());
  const auto listing = Await(store_->List(gateway::store::kTerminalSignIn));
  ASSERT_EQ(listing->objects.size(), 1u);
  for (const std::string& text : {listing->objects[0].id, listing->objects[0].body}) {
    EXPECT_EQ(text.find(begun.code), std::string::npos);
    EXPECT_EQ(text.find(begun.secret), std::string::npos);
  }
}

TEST(TerminalCode, IsReadAsPeopleTypeIt) {
  EXPECT_EQ(gateway::TerminalCode("wdjb mjht"), "WDJB-MJHT");
  EXPECT_EQ(gateway::TerminalCode("WDJBMJHT"), "WDJB-MJHT");
  for (const char* typed : {"", "WDJB", "WDJB-MJHTX", "WDJB-MJHA", "x"})
    EXPECT_EQ(gateway::TerminalCode(typed), "") << typed;
}

}  // namespace
