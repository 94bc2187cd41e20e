#include "gateway/ledger/feedback_table.h"

#include <gtest/gtest.h>

#include "tests/unit/gateway/feedback/feedback_fixture.h"

namespace gateway::ledger {
namespace {

struct FeedbackTableTest : ::testing::Test, FeedbackWorld {
  static Feedback Of(const std::string& request, FeedbackValue value, std::string key = "k1",
                     std::string name = "helpful") {
    Feedback out;
    out.name = std::move(name);
    out.value = std::move(value);
    out.request = request;
    out.tenant = "acme";
    out.key = std::move(key);
    out.model = "chat-small";
    out.version = "org/chat-7b";
    out.settled = true;
    return out;
  }
  static std::optional<FoundRequest> Find(Index& index, std::string_view id) {
    auto found = index.places().Find(id);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : std::nullopt;
  }
};

TEST(RequestId, TellsItsTime) {
  std::array<char, kRequestIdSize> text{};
  WriteRequestId(conf::FromUnixMicros(1'763'676'000'123'999), ~0ULL, 7, text);
  const std::string id(text.data(), text.size());
  EXPECT_EQ(id, "req_019aa3480f7bffff0000000000000007");
  EXPECT_EQ(RequestMillis(id), 1'763'676'000'123);
  for (const char* other : {"", "req_", "chatcmpl-1", "req_019aa3480f7bffff000000000000000",
                            "req_019AA3480F7BFFFF0000000000000007", "req_019aa3480f7bffff00000000000000zz"})
    EXPECT_EQ(RequestMillis(other), std::nullopt) << other;
}

TEST(RequestId, TellsTheTagOfItsGateway) {
  std::array<char, kRequestIdSize> text{};
  WriteRequestId(conf::FromUnixMicros(1'763'676'000'123'999), TagOfGateway("gateway-1"), 7, text);
  const std::string id(text.data(), text.size());
  EXPECT_EQ(RequestTag(id), TagOfGateway("gateway-1"));
  EXPECT_NE(RequestTag(id), TagOfGateway("gateway-2"));
  EXPECT_EQ(RequestMillis(id), 1'763'676'000'123);
  EXPECT_EQ(RequestTag("req_019aa3480f7b12ab0000000000000007"), 0x12ab);
  EXPECT_EQ(RequestTag("chatcmpl-1"), std::nullopt);
  // In ids that were written: never another one for the same gateway.
  EXPECT_EQ(TagOfGateway("gateway-1"), 0xe11e);
}

TEST_F(FeedbackTableTest, TheHoursThatARecordChangesAreKnown) {
  constexpr int64_t kHourUs = 3'600'000'000;
  const std::string id = Ended();
  Say(Of(id, true));
  auto index = UpToDate();
  const int64_t hour = conf::ToUnixMicros(net::Now()) / kHourUs;
  auto changed = index->feedback().HoursChangedAfter(0);
  ASSERT_TRUE(changed.ok()) << changed.status();
  ASSERT_FALSE(changed->empty());
  EXPECT_GE(changed->front(), hour - 1);
  const auto hours = index->feedback().Hours();
  ASSERT_TRUE(hours.ok()) << hours.status();
  EXPECT_EQ(*hours, *changed);
  const auto cells = index->feedback().OfHour(changed->front());
  ASSERT_TRUE(cells.ok()) << cells.status();
  ASSERT_EQ(cells->size(), 1U);
  EXPECT_EQ(cells->front().of, (std::array<std::string, kFeedbackTexts>{"acme", "k1", "chat-small",
                                                                        "org/chat-7b", "", "helpful", ""}));
  EXPECT_EQ(cells->front().count, 1);
  EXPECT_EQ(cells->front().positive, 1);
  const uint64_t before = index->applied_seq();
  changed = index->feedback().HoursChangedAfter(before);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(changed->empty());
  // Feedback on a request that runs changes once more when the version is known.
  const std::string running = NewId();
  Ticket ticket = Begin(running);
  Feedback early = Of(running, true);
  early.settled = false;
  Say(early);
  index = UpToDate();
  const uint64_t said = index->applied_seq();
  ticket.Close(CloseOf());
  index = UpToDate();
  changed = index->feedback().HoursChangedAfter(said);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(changed->empty());
}

TEST_F(FeedbackTableTest, ARequestIsFoundBeforeAndAfterItsEnd) {
  const std::string id = NewId();
  Ticket ticket = Begin(id);
  auto index = UpToDate();
  std::optional<FoundRequest> found = Find(*index, id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tenant, "acme");
  EXPECT_EQ(found->model, "chat-small");
  EXPECT_FALSE(found->settled);
  ticket.Close(CloseOf("org/chat-7b"));
  index = UpToDate();
  found = Find(*index, id);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(found->served.version, "org/chat-7b");
  EXPECT_FALSE(Find(*index, NewId()));
  EXPECT_FALSE(Find(*index, "req_0123456789abcdef0123456789abcdef"));
  EXPECT_FALSE(Find(*index, "' OR 1 = 1 --"));
}

TEST_F(FeedbackTableTest, EachOfManyRequestsIsFoundInItsPieceOfASegment) {
  std::vector<std::string> ids;
  for (int i = 0; i < 1500; ++i) {
    now += std::chrono::milliseconds(3);
    ids.push_back(NewId());
    Ticket ticket = Begin(ids.back());
    ticket.Close(CloseOf());
    if (i % 10 == 9) ASSERT_TRUE(ledger->Flush().ok());
  }
  const std::unique_ptr<Index> index = UpToDate();
  for (size_t i = 0; i < ids.size(); i += 137) {
    const std::optional<FoundRequest> found = Find(*index, ids[i]);
    ASSERT_TRUE(found) << i;
    EXPECT_TRUE(found->settled);
  }
  EXPECT_TRUE(Find(*index, ids.back()));
}

TEST_F(FeedbackTableTest, TheLatestOfAKeyRequestAndNameCounts) {
  const std::string id = Ended();
  Say(Of(id, true));
  Say(Of(id, false));
  Say(Of(id, true, "k2"));
  Say(Of(id, 4.5, "k1", "score"));
  Say(Of(id, 1.5, "k2", "score"));
  Say(Of(id, std::string("rude"), "k1", "tone"));
  auto index = UpToDate();
  const auto sums = index->feedback().Sums({.by = {FeedbackBy::kModel, FeedbackBy::kVersion}});
  ASSERT_TRUE(sums.ok()) << sums.status();
  ASSERT_EQ(sums->size(), 3U);
  EXPECT_EQ((*sums)[0].group, (std::vector<std::string>{"chat-small", "org/chat-7b"}));
  EXPECT_EQ((*sums)[0].name, "helpful");
  EXPECT_EQ((*sums)[0].count, 2);
  EXPECT_EQ((*sums)[0].positive, 1);
  EXPECT_EQ((*sums)[1].type, FeedbackType::kNumber);
  EXPECT_DOUBLE_EQ((*sums)[1].sum, 6);
  EXPECT_DOUBLE_EQ((*sums)[1].max, 4.5);
  EXPECT_EQ((*sums)[2].text, "rude");
  const auto none = index->feedback().Sums({.by = {}, .tenant = "acme/search"});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  // The index is derived: made anew, it says the same.
  index.reset();
  ASSERT_TRUE(Index::Remove(dir).ok());
  index = UpToDate();
  const auto again = index->feedback().Sums({.by = {}});
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->size(), 3U);
  EXPECT_EQ((*again)[0].positive, 1);
}

TEST_F(FeedbackTableTest, FeedbackBeforeTheEndGetsItsVersionWithTheClose) {
  const std::string waits = NewId();
  const std::string ended_between = NewId();
  Ticket first = Begin(waits);
  Ticket second = Begin(ended_between);
  auto index = UpToDate();
  const auto running = [&](const std::string& id) {
    Feedback out = Of(id, true);
    out.version.clear();
    out.settled = false;
    out.known_to = index->applied_seq();
    return out;
  };
  const Feedback of_first = running(waits);
  const Feedback of_second = running(ended_between);
  second.Close(CloseOf("org/chat-8b"));  // after the look, before the record
  ASSERT_TRUE(ledger->Flush().ok());
  Say(of_first);
  Say(of_second);
  index = UpToDate();
  EXPECT_TRUE(index->feedback().Waits());
  EXPECT_EQ((*index->feedback().OfRequest(ended_between, 10))[0].feedback.version, "org/chat-8b");
  EXPECT_EQ((*index->feedback().OfRequest(waits, 10))[0].feedback.version, "");
  ASSERT_TRUE(Index::Remove(dir).ok());
  index = UpToDate();
  EXPECT_EQ((*index->feedback().OfRequest(ended_between, 10))[0].feedback.version, "org/chat-8b");
  index.reset();  // another process goes on
  first.Close(CloseOf("org/chat-7b"));
  index = UpToDate();
  EXPECT_FALSE(index->feedback().Waits());
  EXPECT_EQ((*index->feedback().OfRequest(waits, 10))[0].feedback.version, "org/chat-7b");
  EXPECT_EQ((*index->feedback().OfRequest(waits, 10))[0].feedback.replica, CloseOf().replica);
  const auto sums = index->feedback().Sums({.by = {FeedbackBy::kReplica}});
  ASSERT_TRUE(sums.ok()) << sums.status();
  ASSERT_EQ(sums->size(), 1u);
  EXPECT_EQ((*sums)[0].group.front(), CloseOf().replica);
  EXPECT_EQ((*sums)[0].count, 2);
}

TEST_F(FeedbackTableTest, ARecordGivesTheSameFeedbackBack) {
  Feedback given = Of(NewId(), std::string("rude"));
  given.settled = false;
  given.known_to = 12;
  given.content_key = "ck1";
  given.comment = std::string("\x01\x00\xff", 3);
  Say(given);
  const std::vector<Record> records = OfKind(dir, Kind::kFeedback);
  ASSERT_EQ(records.size(), 1U);
  const auto read = FeedbackOf(records[0]);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->value, given.value);
  EXPECT_EQ(read->comment, given.comment);
  EXPECT_EQ(read->known_to, 12U);
  EXPECT_EQ(read->key, "k1");
  EXPECT_FALSE(FeedbackOf(Record()).ok());
}

}  // namespace
}  // namespace gateway::ledger
