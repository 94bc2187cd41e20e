#include "gateway/audit/sink_source.h"

#include <gtest/gtest.h>

#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway {
namespace {

using plugins::sinks::Record;

class SinkSourceTest : public ::testing::Test {
 protected:
  SinkSourceTest() {
    ledger::Options options = ledger::SmallOptions(dir_);
    options.segment_bytes = 4096;
    ledger_ = ledger::MustOpen(options);
    for (int i = 0; i < 40; ++i) {
      ledger_->Shard(0).Open(ledger::SomeOpen("req_" + std::to_string(i)))->Close(ledger::SomeClose());
      EXPECT_TRUE(ledger_->Flush().ok());
    }
    last_ = ledger_->GetStats().durable_seq;
    EXPECT_GT(ledger::SegmentFiles(dir_).size(), 4u);
  }

  // All, `max` at a time.
  std::vector<Record> ReadAll(SinkSource& source, size_t max) const {
    std::vector<Record> all;
    while (true) {
      auto read = source.Read(all.empty() ? 0 : all.back().seq, max);
      EXPECT_TRUE(read.ok()) << read.status();
      if (!read.ok() || read->empty()) return all;
      EXPECT_LE(read->size(), max);
      for (Record& record : *read) all.push_back(std::move(record));
    }
  }
  SinkSource Source() const {
    return {dir_, [this] { return last_; }};
  }
  // The n-th line of a segment.
  void Change(size_t segment, size_t line, const std::function<void(std::string&)>& change) {
    const std::string path = ledger::SegmentFiles(dir_).at(segment);
    std::vector<std::string> lines = ledger::Lines(ledger::Slurp(path));
    change(lines.at(line));
    ledger::Spill(path, ledger::Joined(lines));
  }
  uint64_t FirstOf(size_t segment) const { return ledger::ListSegments(dir_)->at(segment).first_seq; }

  ledger::TempDir tmp_;
  const std::string dir_ = tmp_.Sub("ledger");
  std::unique_ptr<ledger::Ledger> ledger_;
  uint64_t last_ = 0;
};

TEST_F(SinkSourceTest, GivesEveryRecordOnceAsItStandsUpToWhatIsDurable) {
  SinkSource source = Source();
  const std::vector<Record> all = ReadAll(source, 3);
  ASSERT_EQ(all.size(), last_);
  std::string text;
  for (const std::string& path : ledger::SegmentFiles(dir_)) text += ledger::Slurp(path);
  const std::vector<std::string> lines = ledger::Lines(text);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].seq, i + 1);
    EXPECT_EQ(all[i].line, lines[i]);
    EXPECT_NE(all[i].line.find("\"chain\":\"" + all[i].link + "\""), std::string::npos);
    EXPECT_GT(all[i].at, conf::TimePoint());
  }
  last_ -= 2;
  SinkSource behind = Source();
  EXPECT_EQ(ReadAll(behind, 1000).size(), last_);
  last_ += 2;
  EXPECT_EQ(behind.Read(last_ - 2, 1000)->size(), 2u);
}

TEST_F(SinkSourceTest, SkipsDamagedRecordsAndContinues) {
  std::set<uint64_t> damaged;
  Change(0, 1, [](std::string& line) { line[line.size() / 2] = '\x01'; });
  Change(0, 3, [](std::string& line) { line = "no record"; });
  Change(1, 0, [](std::string& line) { line.replace(line.find("\"kind\""), 6, "kind\"\""); });
  damaged = {FirstOf(0) + 1, FirstOf(0) + 3, FirstOf(1)};
  // A segment of which nothing but bytes without an end is left.
  const std::string lost = ledger::SegmentFiles(dir_).at(2);
  ledger::Spill(lost, std::string(ledger::LineReader::kMaxLine + (1 << 20), 'x'));
  for (uint64_t seq = FirstOf(2); seq < FirstOf(3); ++seq) damaged.insert(seq);

  SinkSource source = Source();
  std::set<uint64_t> given;
  for (const Record& record : ReadAll(source, 4)) given.insert(record.seq);
  for (uint64_t seq = 1; seq <= last_; ++seq) EXPECT_EQ(given.contains(seq), !damaged.contains(seq)) << seq;
}

TEST_F(SinkSourceTest, PassesOverADamagedEndOnceAndGivesWhatComesAfterIt) {
  Change(ledger::SegmentFiles(dir_).size() - 1, 0, [](std::string& line) { line.assign(line.size(), '#'); });
  const uint64_t bad = FirstOf(ledger::SegmentFiles(dir_).size() - 1);
  SinkSource source = Source();
  std::vector<Record> all = ReadAll(source, 1000);
  const uint64_t given = all.back().seq;
  EXPECT_TRUE(source.Read(given, 1000)->empty());
  ledger_->Shard(0).Open(ledger::SomeOpen("req_after"))->Close(ledger::SomeClose());
  ASSERT_TRUE(ledger_->Flush().ok());
  const uint64_t before = std::exchange(last_, ledger_->GetStats().durable_seq);
  const auto after = source.Read(given, 1000);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->size(), last_ - before);
  for (const Record& record : all) EXPECT_NE(record.seq, bad);
}

TEST_F(SinkSourceTest, KnowsARecordsLinkUnlessItIsGoneOrDamaged) {
  Change(0, 3, [](std::string& line) { line = "no record"; });
  SinkSource source = Source();
  for (const Record& record : ReadAll(source, 1000)) EXPECT_EQ(*source.Link(record.seq), record.link);
  for (const uint64_t seq : {uint64_t{0}, FirstOf(0) + 3, last_ + 1, last_ + 1000}) {
    EXPECT_EQ(*source.Link(seq), "") << seq;
  }
  std::filesystem::remove(ledger::SegmentFiles(dir_).at(0));
  EXPECT_EQ(*source.Link(1), "");
}

}  // namespace
}  // namespace gateway
