#include "gateway/feedback/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "tests/unit/gateway/feedback/feedback_fixture.h"

namespace gateway::feedback {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

struct FeedbackServiceTest : ::testing::Test, FeedbackWorld {
  Service service{dir, *ledger, keys.get()};

  static PrincipalRef PrincipalOf(std::string tenant = "acme", std::string key = "k1") {
    const auto principal = std::make_shared<Principal>();
    principal->tenant = std::move(tenant);
    principal->key = std::move(key);
    return principal;
  }
  std::future<Reply> Take(Call call) {
    const auto promise = std::make_shared<std::promise<Reply>>();
    service.Take(std::move(call), [promise](Reply reply) { promise->set_value(std::move(reply)); });
    return promise->get_future();
  }
  Reply Give(const PrincipalRef& principal, const std::string& request, ledger::FeedbackValue value,
             std::string name = "helpful", std::string comment = "", std::string correction = "") {
    return Take({.principal = principal,
                 .given = GivenFeedback{request, std::move(name), std::move(value), std::move(comment),
                                        std::move(correction)}})
        .get();
  }
  json List(const PrincipalRef& principal, const std::string& request) {
    const Reply reply = Take({.principal = principal, .request = request}).get();
    EXPECT_FALSE(reply.error) << reply.error->message;
    return reply.error ? json() : json::parse(reply.json);
  }
};

TEST_F(FeedbackServiceTest, AnAcknowledgedFeedbackIsInTheLedgerAndIsShown) {
  const std::string id = Ended();
  const Reply reply = Give(PrincipalOf(), id, false, "helpful", "too long", "Short.");
  ASSERT_FALSE(reply.error) << reply.error->message;
  const json shown = json::parse(reply.json);
  EXPECT_EQ(shown["object"], "feedback");
  EXPECT_EQ(shown["value"], false);
  EXPECT_EQ(shown["model"], "chat-small");
  EXPECT_EQ(shown["version"], "org/chat-7b");
  EXPECT_EQ(ledger::OfKind(dir, ledger::Kind::kFeedback).size(), 1U);
  // What people write is sealed.
  for (const std::string& path : ledger::SegmentFiles(dir))
    EXPECT_THAT(ledger::Slurp(path), Not(HasSubstr("too long")));
  const json list = List(PrincipalOf(), id);
  ASSERT_EQ(list["data"].size(), 1U);
  EXPECT_EQ(list["data"][0]["comment"], "too long");
  EXPECT_EQ(list["data"][0]["correction"], "Short.");
  EXPECT_EQ(List(PrincipalOf("acme", "k2"), id)["data"].size(), 0U);
  EXPECT_EQ(service.counts().at("chat-small"), (Service::Counts{0, 1, 0, 0}));
  // Erased with the content of the tenant.
  ASSERT_TRUE(keys->Erase("acme", "admin", "", now).ok());
  EXPECT_EQ(List(PrincipalOf(), id)["data"][0]["comment"], json());
}

TEST_F(FeedbackServiceTest, TheRequestOfAnotherTenantIsAnsweredLikeOneThatDoesNotExist) {
  const std::string id = Ended("acme");
  const std::string none = NewId();
  const Reply other = Give(PrincipalOf("other"), id, true);
  const Reply missing = Give(PrincipalOf("other"), none, true);
  const Reply below = Give(PrincipalOf("acme/search"), id, true);
  for (const Reply* reply : {&other, &missing, &below}) {
    ASSERT_TRUE(reply->error);
    EXPECT_EQ(reply->error->code, "not_found");
    EXPECT_EQ(reply->error->status, 404);
    EXPECT_EQ(reply->error->param, "request_id");
  }
  std::string expected = missing.error->message;
  expected.replace(expected.find(none), none.size(), id);
  EXPECT_EQ(other.error->message, expected);
  EXPECT_TRUE(ledger::OfKind(dir, ledger::Kind::kFeedback).empty());
  EXPECT_TRUE(Take({.principal = PrincipalOf("other"), .request = id}).get().error);
}

TEST_F(FeedbackServiceTest, ARunningRequestTakesFeedbackAtOnce) {
  const std::string id = NewId();
  ledger::Ticket ticket = Begin(id);  // perhaps in no segment yet
  const Reply reply = Give(PrincipalOf(), id, 0.5, "score");
  ASSERT_FALSE(reply.error) << reply.error->message;
  EXPECT_EQ(json::parse(reply.json)["version"], json());
  ticket.Close(CloseOf());
  ASSERT_TRUE(ledger->Flush().ok());
  EXPECT_EQ(List(PrincipalOf(), id)["data"][0]["version"], "org/chat-7b");
}

TEST_F(FeedbackServiceTest, ARequestThatWasRefusedTakesFeedback) {
  const std::string id = NewId();
  ledger::CloseRecord close = CloseOf("");
  close.reason = ledger::EndReason::kRefused;
  ASSERT_TRUE(ledger->Shard(0).Refuse(OpenOf(id), close));
  EXPECT_FALSE(Give(PrincipalOf(), id, false).error);
}

TEST_F(FeedbackServiceTest, NamesOfAKeyForARequestAreBounded) {
  const std::string id = Ended();
  for (size_t i = 0; i < Service::kMaxNames; ++i)
    ASSERT_FALSE(Give(PrincipalOf(), id, true, fmt::format("name{}", i)).error);
  const Reply reply = Give(PrincipalOf(), id, true, "one-more");
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->param, "name");
  EXPECT_FALSE(Give(PrincipalOf(), id, false, "name3").error);
  EXPECT_FALSE(Give(PrincipalOf("acme", "k2"), id, true, "one-more").error);
}

TEST_F(FeedbackServiceTest, ATenantHoldsAShareOfThePlacesAndAStopAnswersAll) {
  const std::string id = Ended();
  std::vector<std::future<Reply>> waiting;
  for (size_t i = 0; i < Service::kMaxOfTenant + 200; ++i) {
    waiting.push_back(
        Take({.principal = PrincipalOf(), .given = GivenFeedback{id, "helpful", true, "", ""}}));
  }
  service.Stop();
  size_t recorded = 0;
  for (std::future<Reply>& reply : waiting) {
    const Reply got = reply.get();
    if (!got.error) {
      ++recorded;
    } else {
      EXPECT_THAT(got.error->code, ::testing::AnyOf("concurrency_limit", "draining"));
    }
  }
  EXPECT_EQ(ledger::OfKind(dir, ledger::Kind::kFeedback).size(), recorded);
  EXPECT_EQ(Take({.principal = PrincipalOf(), .request = id}).get().error->code, "draining");
}

}  // namespace
}  // namespace gateway::feedback
