#include "gateway/datasets/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/datasets/dataset_file.h"
#include "tests/unit/gateway/feedback/feedback_fixture.h"

namespace gateway::datasets {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Body(std::string_view text) {
  return fmt::format(R"({{"model":"chat-small","messages":[{{"role":"user","content":"{}"}}]}})", text);
}
std::string Answer(std::string_view text) {
  return fmt::format(R"({{"choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}}}}]}})",
                     text);
}

struct DatasetTest : ::testing::Test, FeedbackWorld {
  plugins::Redaction redaction = *plugins::Redaction::Make({});

  void Judge(const std::string& request, ledger::FeedbackValue value, std::string correction = "",
             std::string tenant = "acme") {
    ledger::Feedback of;
    of.name = "helpful";
    of.value = std::move(value);
    of.request = request;
    of.tenant = tenant;
    of.key = "k1";
    of.model = "chat-small";
    of.settled = true;
    if (!correction.empty()) {
      of.content_key = keys->For(tenant)->id();
      of.correction = keys->For(tenant)->Seal(correction);
    }
    Say(of);
  }

  struct Exported {
    std::vector<std::string> lines;
    DatasetCounts counts;
    plugins::Redaction::Counts redacted;
  };
  // In parts of so many records each.
  Exported Export(std::string_view where, DatasetQuery query = {}, uint64_t part = 1'000'000) {
    const auto parsed =
        where.empty() ? std::variant<Expression, Expression::Problem>() : Expression::Parse(where);
    EXPECT_TRUE(std::holds_alternative<Expression>(parsed));
    const std::unique_ptr<ledger::Index> index = UpToDate();
    Exported out;
    while (true) {
      DatasetSteps steps(dir, *index, *keys, std::get<Expression>(parsed), redaction, query);
      const auto more = steps.Step(part, [&](std::string_view line) {
        out.lines.emplace_back(line);
        return true;
      });
      EXPECT_TRUE(more.ok()) << more.status();
      out.counts += steps.counts();
      for (const auto& [rule, count] : steps.redacted()) out.redacted[rule] += count;
      query.from_seq = steps.last_seq() + 1;
      if (!more.ok() || !*more) return out;
    }
  }
};

TEST_F(DatasetTest, TheSetHasRequestsThatMatchAndWereKept) {
  const std::string good = Ended("acme", Body("one"), Answer("first"));
  const std::string bad = Ended("acme", Body("two, ada@example.com"), Answer("second"));
  const std::string bare = Ended("acme");
  const std::string other = Ended("other", Body("secret"), Answer("of others"));
  Judge(good, true);
  Judge(bad, false);
  Judge(bare, false);
  Judge(other, false, "", "other");
  const Exported got = Export("feedback.helpful = false and model = chat-small", {.tenant = "acme"});
  ASSERT_EQ(got.lines.size(), 1U);
  const json line = json::parse(got.lines[0]);
  EXPECT_EQ(line["messages"][0]["content"], "two, [email]");
  EXPECT_EQ(line["messages"][1], (json{{"role", "assistant"}, {"content", "second"}}));
  EXPECT_EQ(got.counts.requests, 2U);
  EXPECT_EQ(got.counts.examples, 1U);
  EXPECT_EQ(got.counts.not_kept, 1U);
  EXPECT_EQ(got.redacted, (plugins::Redaction::Counts{{"email", 1}}));
  EXPECT_EQ(Export("").counts.requests, 4U);
}

TEST_F(DatasetTest, ErasedContentIsCountedAndLeftOut) {
  Judge(Ended("acme", Body("one"), Answer("first")), false);
  ASSERT_TRUE(keys->Erase("acme", "admin", "", now).ok());
  const Exported got = Export("feedback.helpful = false");
  EXPECT_TRUE(got.lines.empty());
  EXPECT_EQ(got.counts.erased, 1U);
}

TEST_F(DatasetTest, ACorrectionTakesTheAnswersPlaceWhereItIsAskedFor) {
  const std::string id = Ended("acme", Body("one"), Answer("first"));
  Judge(id, false, "right, call +1 or bob@example.org");
  EXPECT_EQ(json::parse(Export("").lines.at(0))["messages"][1]["content"], "first");
  const Exported got = Export("corrected = true", {.use_corrections = true});
  EXPECT_EQ(json::parse(got.lines.at(0))["messages"][1]["content"], "right, call +1 or [email]");
  EXPECT_EQ(got.counts.corrected, 1U);
}

TEST_F(DatasetTest, AnAnswerThatWasNotKeptMayBeCorrected) {
  const std::string id = Ended("acme", Body("one"));
  Judge(id, false, "right");
  EXPECT_EQ(Export("").counts.not_kept, 1U);
  EXPECT_EQ(Export("", {.use_corrections = true}).counts.examples, 1U);
}

TEST_F(DatasetTest, PartsGiveTheSameSetAsOnePass) {
  for (int i = 0; i < 20; ++i) Judge(Ended("acme", Body(fmt::format("q{}", i)), Answer("a")), i % 2 == 0);
  const Exported whole = Export("feedback.helpful = true");
  EXPECT_EQ(whole.lines.size(), 10U);
  for (const uint64_t part : {1U, 2U, 3U, 7U})
    EXPECT_EQ(Export("feedback.helpful = true", {}, part).lines, whole.lines);
}

TEST_F(DatasetTest, TimeAndTenantBoundTheSet) {
  Ended("acme", Body("one"), Answer("first"));
  Ended("acme/search", Body("two"), Answer("second"));
  Ended("acmelike", Body("three"), Answer("third"));
  EXPECT_EQ(Export("", {.tenant = "acme"}).counts.examples, 2U);
  EXPECT_EQ(Export("", {.since_us = conf::ToUnixMicros(now) + 1}).counts.requests, 0U);
  EXPECT_EQ(Export("", {.until_us = conf::ToUnixMicros(now)}).counts.requests, 0U);
}

TEST_F(DatasetTest, AFileHasItsNameOnceItIsWhole) {
  const std::string path = tmp.Sub("set.jsonl");
  {
    auto file = DatasetFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Add("{}").ok());
    EXPECT_THAT(std::string(DatasetFile::Create(path).status().message()), HasSubstr(".part exists"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  auto file = DatasetFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Add("{\"a\":1}").ok());
  Manifest manifest;
  manifest.examples = 1;
  ASSERT_TRUE((*file)->Finish(manifest).ok());
  EXPECT_EQ(ledger::Slurp(path), "{\"a\":1}\n");
  const json read = json::parse(ledger::Slurp(DatasetFile::ManifestPath(path)));
  EXPECT_EQ(read["sha256"], "e346432021b04179518d9614f3560ccd71354a4ee101ddcb893d6959a9d6301c");
  EXPECT_EQ(read["bytes"], 8);
  EXPECT_EQ(read["file"], "set.jsonl");
  EXPECT_TRUE(absl::IsAlreadyExists(DatasetFile::Create(path).status()));
}

}  // namespace
}  // namespace gateway::datasets
