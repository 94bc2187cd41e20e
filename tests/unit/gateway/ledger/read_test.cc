// The readers of the ledger: tail, export, index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "gateway/ledger/export.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/tail.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

constexpr int64_t kHour = 3'600'000'000;
constexpr int64_t kNoon = 490'000 * kHour;

class ReadTest : public ::testing::Test {
 protected:
  void Start(uint64_t segment_bytes = 4096) {
    Options options = SmallOptions(dir_);
    options.segment_bytes = segment_bytes;
    ledger_ = MustOpen(options);
  }
  void Call(const std::string& request, const std::string& tenant, const std::string& model, int64_t time_us,
            EndReason reason = EndReason::kDone) {
    OpenRecord open = SomeOpen(request);
    open.tenant = tenant;
    open.model = model;
    open.time_us = time_us;
    CloseRecord close = SomeClose(reason);
    close.time_us = time_us;
    ledger_->Shard(0).Open(open)->Close(close);
    ASSERT_TRUE(ledger_->Flush().ok());
  }
  std::vector<UsageRow> Ask(const UsageQuery& query) {
    absl::StatusOr<std::vector<UsageRow>> rows = QueryUsage(dir_, query);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? *rows : std::vector<UsageRow>{};
  }
  TempDir tmp_;
  const std::string dir_ = tmp_.Sub("ledger");
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(ReadTest, TailGivesEveryRecordOnceAndInOrder) {
  Start();
  Tail tail(dir_, 0);
  uint64_t expected = 1;
  for (int i = 0; i < 40; ++i) {
    Call("req_" + std::to_string(i), "acme", "m", kNoon);
    while (true) {
      absl::StatusOr<Tail::Batch> batch = tail.Read(3, 1 << 20);
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ(batch->missed, 0u);
      if (batch->lines.empty()) break;
      for (const Tail::Line& line : batch->lines) EXPECT_EQ(line.seq, expected++);
    }
    EXPECT_EQ(tail.after_seq(), ledger_->GetStats().durable_seq);
  }
  EXPECT_GT(SegmentFiles(dir_).size(), 3u);
}

// Damages bytes in the middle of a line, so that its number, time, kind and chain are still valid.
TEST_F(ReadTest, ADamagedRecordIsSkippedAndCounted) {
  Start(1 << 20);
  for (int i = 0; i < 6; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon);
  ASSERT_TRUE(ledger_->Append({.kind = Kind::kAdmin, .action = "changed", .actor = "admin_1"}).ok());
  Call("req_last", "acme", "m", kNoon);
  ASSERT_TRUE(ledger_->Stop().ok());
  const std::string path = SegmentFiles(dir_).at(0);
  std::vector<std::string> lines = Lines(Slurp(path));
  uint64_t damaged = 0;
  for (std::string& line : lines) {
    const bool hit =
        line.find("\"kind\":\"admin\"") != std::string::npos ||
        (line.find("\"kind\":\"close\"") != std::string::npos && line.find("req_3") != std::string::npos);
    if (!hit) continue;
    const size_t at = std::min(line.find("\"tenant\":"), line.find("\"actor\":"));
    ASSERT_NE(at, std::string::npos);
    line[at] = '\\';
    ++damaged;
  }
  ASSERT_EQ(damaged, 2u);
  Spill(path, Joined(lines));

  Tail tail(dir_, 0);
  uint64_t read = 0, missed = 0;
  while (true) {
    const absl::StatusOr<Tail::Batch> batch = tail.Read(3, 1 << 20);
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (batch->lines.empty()) break;
    read += batch->lines.size();
    missed += batch->missed;
    EXPECT_GT(batch->lines[0].time_us, 0);
  }
  EXPECT_EQ(missed, damaged);
  EXPECT_EQ(read + missed, lines.size());
  EXPECT_EQ(Ask({}).at(0).requests, 6) << "records after the damage count";
  EXPECT_EQ(SpentSince(dir_, conf::FromUnixMicros(0))->at(0).cost_micro_usd, 6 * 27);
  uint64_t exported = 0;
  ASSERT_TRUE(Export(dir_, {}, [&](std::string_view text) {
                return exported += Lines(std::string(text)).size(), true;
              }).ok());
  EXPECT_EQ(exported, read);
  EXPECT_FALSE(MustVerify(dir_).ok());
}

TEST_F(ReadTest, ADamagedEndOfASegmentOrAWholeSegmentIsSkipped) {
  Start();
  for (int i = 0; i < 60; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon);
  const std::vector<std::string> segments = SegmentFiles(dir_);
  ASSERT_GT(segments.size(), 6u);
  std::set<uint64_t> damaged;
  const auto damage = [&](size_t segment, auto&& change) {
    std::vector<std::string> lines = Lines(Slurp(segments[segment]));
    uint64_t seq = ListSegments(dir_)->at(segment).first_seq;
    for (size_t i = 0; i < lines.size(); ++i, ++seq) {
      const std::string before = lines[i];
      change(lines[i], i + 1 == lines.size());
      if (lines[i] != before) damaged.insert(seq);
    }
    Spill(segments[segment], Joined(lines));
  };
  const auto no_json = [](std::string& line) { line[line.size() / 2] = '\x01'; };
  damage(0, [&](std::string& line, bool last) {
    if (last) line = "no record";
  });
  damage(1, [&](std::string& line, bool last) {
    if (last) no_json(line);
  });
  damage(2, [&](std::string& line, bool) { no_json(line); });
  damage(3, [&](std::string& line, bool) { line = "no record"; });
  for (uint64_t seq = ListSegments(dir_)->at(4).first_seq; seq < ListSegments(dir_)->at(5).first_seq; ++seq)
    damaged.insert(seq);
  Spill(segments[4], std::string(LineReader::kMaxLine + (1 << 20), 'x'));

  Tail tail(dir_, 0);
  std::set<uint64_t> read;
  uint64_t missed = 0;
  const auto read_all = [&] {
    while (true) {
      const absl::StatusOr<Tail::Batch> batch = tail.Read(3, 1 << 20);
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (batch->lines.empty()) return;
      missed += batch->missed;
      for (const Tail::Line& line : batch->lines) EXPECT_TRUE(read.insert(line.seq).second) << line.seq;
    }
  };
  read_all();
  Call("req_after", "acme", "m", kNoon);
  read_all();
  EXPECT_EQ(missed, damaged.size());
  for (uint64_t seq = 1; seq <= ledger_->GetStats().durable_seq; ++seq)
    EXPECT_EQ(read.contains(seq), !damaged.contains(seq)) << seq;
}

TEST_F(ReadTest, TailStopsAtTheGivenRecordAndContinuesLater) {
  Start();
  for (int i = 0; i < 10; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon);
  Tail tail(dir_, 4);
  EXPECT_TRUE(tail.Read(100, 1 << 20, 4)->lines.empty());
  EXPECT_EQ(tail.Read(100, 1 << 20, 6)->lines.size(), 2u);
  EXPECT_TRUE(tail.Read(100, 1 << 20, 6)->lines.empty());
  EXPECT_EQ(tail.Read(1, 1 << 20)->lines.at(0).seq, 7u);
}

TEST_F(ReadTest, TailCountsTheRecordsThatRetentionRemoved) {
  Start();
  for (int i = 0; i < 30; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon);
  std::filesystem::remove(SegmentFiles(dir_).at(0));
  const uint64_t first = ListSegments(dir_)->at(0).first_seq;
  absl::StatusOr<Tail::Batch> batch = Tail(dir_, 0).Read(5, 1 << 20);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->missed, first - 1);
  EXPECT_EQ(batch->lines.at(0).seq, first);
}

TEST_F(ReadTest, ExportSelectsByTimeTenantModelAndKind) {
  Start();
  Call("req_1", "acme", "a", kNoon);
  Call("req_2", "acme/search", "b", kNoon + kHour);
  Call("req_3", "acmes", "a", kNoon + 2 * kHour);
  struct Case {
    ExportOptions options;
    std::vector<std::string> requests;
  };
  const std::vector<Kind> closes = {Kind::kClose};
  const std::vector<Case> cases = {
      {{.kinds = closes}, {"req_1", "req_2", "req_3"}},
      {{.tenant = "acme", .kinds = closes}, {"req_1", "req_2"}},
      {{.tenant = "acme/search", .kinds = closes}, {"req_2"}},
      {{.model = "a", .kinds = closes}, {"req_1", "req_3"}},
      {{.since_us = kNoon + 1, .until_us = kNoon + 2 * kHour, .kinds = closes}, {"req_2"}},
      {{.model = "a", .kinds = {Kind::kOpen, Kind::kClose}}, {"req_1", "req_1", "req_3", "req_3"}},
  };
  RecordParser parser;
  for (const Case& c : cases) {
    std::string text;
    ASSERT_TRUE(Export(dir_, c.options, [&](std::string_view more) { return text += more, true; }).ok());
    std::vector<std::string> requests;
    for (const std::string& line : Lines(text)) {
      Record record;
      ASSERT_TRUE(parser.Parse(line, &record).ok()) << line;
      requests.push_back(record.request);
    }
    EXPECT_EQ(requests, c.requests);
  }
}

TEST_F(ReadTest, ExportFindsActionsAndFeedbackByTheirModel) {
  Start();
  const auto act = [&](Kind kind, std::string action, std::string subject, std::string detail) {
    Event event;
    event.kind = kind;
    event.action = std::move(action);
    event.actor = "control";
    event.subject = std::move(subject);
    event.detail = std::move(detail);
    ASSERT_TRUE(ledger_->Append(std::move(event)).ok());
  };
  act(Kind::kAction, "replica.start", "r-a-1", R"({"model":"a","reason":"load"})");
  act(Kind::kAction, "replica.start", "r-b-1", R"({"model":"b","reason":"like model \"a\""})");
  act(Kind::kAction, "model.pause", "a", R"({"reason":"repair"})");
  act(Kind::kAction, "job.start", "a", R"({"reason":"fits"})");  // a job of that name
  act(Kind::kAction, "rollout.step", "a", R"({"percent":5})");
  act(Kind::kAdmin, "tenant.create", "a", R"({"model":"a"})");
  Feedback feedback;
  feedback.name = "helpful";
  feedback.value = true;
  feedback.request = "req_1";
  feedback.model = "a";
  ASSERT_TRUE(ledger_->Append(EventOf(feedback)).ok());
  const auto found = [&](std::string model, std::vector<Kind> kinds) {
    std::string text;
    EXPECT_TRUE(
        Export(dir_, {.model = std::move(model), .kinds = std::move(kinds)}, [&](std::string_view more) {
          return text += more, true;
        }).ok());
    RecordParser parser;
    std::vector<std::string> actions;
    for (const std::string& line : Lines(text)) {
      Record record;
      EXPECT_TRUE(parser.Parse(line, &record).ok()) << line;
      actions.push_back(record.action + " " + record.subject);
    }
    return actions;
  };
  using testing::ElementsAre;
  EXPECT_THAT(found("a", {Kind::kAction}),
              ElementsAre("replica.start r-a-1", "model.pause a", "rollout.step a"));
  EXPECT_THAT(found("b", {Kind::kAction}), ElementsAre("replica.start r-b-1"));
  EXPECT_THAT(found("c", {Kind::kAction}), testing::IsEmpty());
  EXPECT_THAT(found("a", {Kind::kFeedback}), ElementsAre("helpful req_1"));
}

TEST_F(ReadTest, AnExportCutAtAnyByteContinuesToTheSameFile) {
  Start();
  for (int i = 0; i < 4; ++i) Call("req_\n\"" + std::to_string(i), "acme", "=m,1", kNoon);
  for (const ExportFormat format : {ExportFormat::kJsonLines, ExportFormat::kCsv}) {
    const std::string path = tmp_.Sub("out");
    std::filesystem::remove(path);
    const ExportOptions options{.format = format, .kinds = {Kind::kOpen, Kind::kClose}};
    ASSERT_EQ(ExportToFile(dir_, options, path)->records, format == ExportFormat::kCsv ? 10u : 8u);
    const std::string whole = Slurp(path);
    for (size_t cut = 0; cut <= whole.size(); ++cut) {
      Spill(path, whole.substr(0, cut));
      ASSERT_TRUE(ExportToFile(dir_, options, path).ok());
      ASSERT_EQ(Slurp(path), whole) << cut;
    }
    Call("req_later" + std::to_string(static_cast<int>(format)), "acme", "m", kNoon);
    ASSERT_EQ(ExportToFile(dir_, options, path)->records, 2u);
    EXPECT_EQ(Slurp(path).substr(0, whole.size()), whole);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ExportToFile(dir_, {}, tmp_.Sub("out")).status()))
      << "a CSV export must not be continued as JSONL";
}

TEST(Csv, QuotesByRfc4180AndDefusesFormulas) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},
      {"a,b", "\"a,b\""},
      {"say \"hi\"", "\"say \"\"hi\"\"\""},
      {"two\nlines", "\"two\nlines\""},
      {"=1+1", "'=1+1"},
      {"+1", "'+1"},
      {"-1", "'-1"},
      {"@SUM(A1)", "'@SUM(A1)"},
      {"=a,b", "\"'=a,b\""},
      {"\tx", "'\tx"},
      {"", ""},
  };
  for (const auto& [field, expected] : cases) {
    std::string out;
    AppendCsvField(&out, field);
    EXPECT_EQ(out, expected);
  }
}

TEST_F(ReadTest, UsageIsGroupedFilteredAndExactToTheMicrosecondAtItsEdges) {
  Start();
  Call("req_1", "acme", "a", kNoon);
  Call("req_2", "acme/search", "a", kNoon + kHour - 1);
  Call("req_3", "acme", "b", kNoon + kHour, EndReason::kTimedOut);
  Call("req_4", "other", "a", kNoon + 30 * kHour, EndReason::kClientGone);
  const std::vector<UsageRow> total = Ask({});
  ASSERT_EQ(total.size(), 1u);
  EXPECT_EQ(total[0].requests, 4);
  EXPECT_EQ(total[0].errors, 1);
  EXPECT_EQ(total[0].input, 400);
  EXPECT_EQ(total[0].cached, 160);
  EXPECT_EQ(total[0].output, 80);
  EXPECT_EQ(total[0].cost_micro_usd, 108);

  const std::vector<UsageRow> by = Ask({.by = {UsageBy::kTenant, UsageBy::kModel}});
  ASSERT_EQ(by.size(), 4u);
  EXPECT_EQ(by[0].group, (std::vector<std::string>{"acme", "a"}));
  EXPECT_EQ(by[3].group, (std::vector<std::string>{"other", "a"}));
  EXPECT_EQ(Ask({.by = {UsageBy::kHour}}).size(), 3u);
  EXPECT_EQ(Ask({.by = {UsageBy::kDay}}).at(0).group.at(0),
            conf::FormatTime(conf::FromUnixMicros(kNoon / (24 * kHour) * 24 * kHour)));
  EXPECT_EQ(Ask({.by = {UsageBy::kReason}}).size(), 3u);
  EXPECT_EQ(Ask({.tenant = "acme"}).at(0).requests, 3);
  EXPECT_EQ(Ask({.model = "b"}).at(0).requests, 1);
  EXPECT_TRUE(Ask({.tenant = "nobody"}).empty());

  struct Window {
    int64_t since, until, requests;
  };
  for (const Window& w : {Window{kNoon, kNoon + kHour, 2}, Window{kNoon, kNoon + kHour - 1, 1},
                          Window{kNoon + 1, kNoon + kHour, 1}, Window{kNoon - 1, kNoon + kHour + 1, 3},
                          Window{kNoon + 1, kNoon + 31 * kHour, 3}, Window{kNoon, kNoon + 1, 1},
                          Window{kNoon - 5 * kHour, kNoon + 29 * kHour, 3}}) {
    const std::vector<UsageRow> rows = Ask({.since_us = w.since, .until_us = w.until});
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].requests, w.requests) << w.since - kNoon << " " << w.until - kNoon;
  }
  EXPECT_TRUE(Ask({.since_us = kNoon + 2, .until_us = kNoon + 3}).empty());
}

TEST_F(ReadTest, AMissingDamagedForeignOrOldIndexIsRebuilt) {
  Start();
  for (int i = 0; i < 20; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon);
  ASSERT_EQ(Ask({}).at(0).requests, 20);
  const std::string path = dir_ + "/index.sqlite";
  const std::string good = Slurp(path);
  const auto put = [&](const std::string& bytes) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    if (!bytes.empty()) Spill(path, bytes);
  };
  put("");
  EXPECT_EQ(Ask({}).at(0).requests, 20);
  put("this is no database, whatever its name says, and long enough to be read as one");
  EXPECT_EQ(Ask({}).at(0).requests, 20);
  put(good.substr(0, good.size() / 2));
  EXPECT_EQ(Ask({}).at(0).requests, 20);
  put(good);
  {
    auto db = gateway::sqlite::Database::Open(path, gateway::sqlite::Database::Sync::kNormal);
    ASSERT_TRUE((*db)->Execute("UPDATE meta SET value = '0' WHERE name = 'version'; DELETE FROM usage").ok());
  }
  EXPECT_EQ(Ask({}).at(0).requests, 20);
  {
    auto db = gateway::sqlite::Database::Open(path, gateway::sqlite::Database::Sync::kNormal);
    ASSERT_TRUE(
        (*db)->Execute("UPDATE meta SET value = 'ff' WHERE name = 'applied_link'; DELETE FROM usage").ok());
  }
  EXPECT_EQ(Ask({}).at(0).requests, 20);
}

TEST_F(ReadTest, AfterRetentionTheIndexEqualsARebuiltOne) {
  Start();
  for (int i = 0; i < 60; ++i) Call("req_" + std::to_string(i), "acme", "m", kNoon + i * kHour / 7);
  ASSERT_EQ(Ask({}).at(0).requests, 60);
  std::vector<std::string> paths = SegmentFiles(dir_);
  ASSERT_GT(paths.size(), 4u);
  for (size_t i = 0; i < paths.size() / 2; ++i) std::filesystem::remove(paths[i]);
  const UsageQuery by_hour{.by = {UsageBy::kHour}};
  const std::vector<UsageRow> pruned = Ask(by_hour);
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(dir_ + "/index.sqlite" + suffix);
  const std::vector<UsageRow> fresh = Ask(by_hour);
  ASSERT_EQ(pruned.size(), fresh.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    EXPECT_EQ(pruned[i].group, fresh[i].group);
    EXPECT_EQ(pruned[i].requests, fresh[i].requests);
    EXPECT_EQ(pruned[i].cost_micro_usd, fresh[i].cost_micro_usd);
  }
  EXPECT_LT(Ask({}).at(0).requests, 60);
}

TEST_F(ReadTest, ARebuiltIndexAlsoKnowsTheHoursThatChangedAfterARecord) {
  Start();
  Call("req_1", "acme", "m", kNoon);
  uint64_t first = 0;
  ASSERT_TRUE(QueryUsage(dir_, {}, &first).ok());
  Call("req_2", "acme", "m", kNoon + kHour);
  Call("req_3", "acme", "m", kNoon + kHour);
  {
    const auto index = OpenIndexUpToDate(dir_);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(*(*index)->HoursChangedAfter(0), (std::vector<int64_t>{490'000, 490'001}));
    EXPECT_EQ(*(*index)->HoursChangedAfter(first), std::vector<int64_t>{490'001});
    EXPECT_TRUE((*index)->HoursChangedAfter((*index)->applied_seq())->empty());
    EXPECT_EQ(**(*index)->FirstHour(), 490'000);
    EXPECT_EQ(*(*index)->FirstSeq(), 1u);
    const std::vector<UsageCell> cells = *(*index)->UsageOfHour(490'001);
    ASSERT_EQ(cells.size(), 1u);
    EXPECT_EQ(cells[0].of[0], "acme");
    EXPECT_EQ(cells[0].requests, 2);
  }
  ASSERT_TRUE(Index::Remove(dir_).ok());
  const auto rebuilt = OpenIndexUpToDate(dir_);
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  const std::vector<int64_t> changed = *(*rebuilt)->HoursChangedAfter(first);
  EXPECT_NE(std::ranges::find(changed, 490'001), changed.end());
}

}  // namespace
}  // namespace gateway::ledger
