#include "gateway/ledger/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "conf/hex.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

using ::testing::HasSubstr;

class TamperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options = SmallOptions(dir_);
    options.segment_bytes = 3000;
    options.checkpoint_records = 4;
    auto ledger = MustOpen(options);
    for (int i = 0; i < 8; ++i) {
      ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i)))->Close(SomeClose());
      ASSERT_TRUE(ledger->Flush().ok());
    }
    ASSERT_TRUE(ledger->Stop().ok());
    ASSERT_GE(SegmentFiles(dir_).size(), 3u);
    ASSERT_TRUE(MustVerify(dir_).ok()) << Why(MustVerify(dir_));
  }
  // The report on the ledger with `content` instead of the content of a segment.
  VerifyReport With(const std::string& path, const std::string& content) {
    const std::string before = Slurp(path);
    Spill(path, content);
    VerifyReport report = MustVerify(dir_);
    Spill(path, before);
    return report;
  }
  TempDir tmp_;
  const std::string dir_ = tmp_.Sub("ledger");
};

TEST_F(TamperTest, AnyFlippedByteIsFoundAtItsRecord) {
  for (const std::string& path : SegmentFiles(dir_)) {
    const std::string bytes = Slurp(path);
    const std::string name = std::filesystem::path(path).filename().string();
    for (size_t at = 0; at < bytes.size(); at += 3) {
      std::string changed = bytes;
      changed[at] ^= 1;
      const VerifyReport report = With(path, changed);
      ASSERT_FALSE(report.ok()) << name << " byte " << at;
      // A missing newline joins two lines; the problem is found at the first one.
      const auto line =
          static_cast<uint64_t>(std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(at), '\n')) +
          1;
      ASSERT_EQ(report.first_bad->segment, name) << at;
      ASSERT_EQ(report.first_bad->line, line) << name << " byte " << at << ": " << Why(report);
    }
  }
}

TEST_F(TamperTest, AnyDeletedDoubledSwappedOrInsertedRecordIsFound) {
  for (const std::string& path : SegmentFiles(dir_)) {
    const std::vector<std::string> lines = Lines(Slurp(path));
    for (size_t i = 0; i < lines.size(); ++i) {
      std::vector<std::string> changed = lines;
      changed.erase(changed.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_FALSE(With(path, Joined(changed)).ok()) << path << " deleted " << i;
      changed = lines;
      changed.insert(changed.begin() + static_cast<ptrdiff_t>(i), lines[i]);
      EXPECT_FALSE(With(path, Joined(changed)).ok()) << path << " doubled " << i;
      changed = lines;
      changed.insert(changed.begin() + static_cast<ptrdiff_t>(i), "{}");
      EXPECT_FALSE(With(path, Joined(changed)).ok()) << path << " inserted " << i;
      if (i + 1 == lines.size()) continue;
      changed = lines;
      std::swap(changed[i], changed[i + 1]);
      EXPECT_FALSE(With(path, Joined(changed)).ok()) << path << " swapped " << i;
    }
  }
}

TEST_F(TamperTest, AChainThatWasRecomputedAfterAChangeFailsAtTheNextSignature) {
  const std::string path = SegmentFiles(dir_).at(0);
  std::vector<std::string> lines = Lines(Slurp(path));
  Digest link{};
  size_t changed = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string body(SplitLine(lines[i])->body);
    if (const size_t at = body.find("\"output\":20"); changed == 0 && at != std::string::npos) {
      body.replace(at, 11, "\"output\":10");
      changed = i;
    }
    link = FinishLine(&body, 0, link);
    body.pop_back();
    lines[i] = body;
  }
  ASSERT_GT(changed, 0u);
  const VerifyReport report = With(path, Joined(lines));
  ASSERT_FALSE(report.ok());
  EXPECT_GT(report.first_bad->line, changed);
  EXPECT_THAT(report.first_bad->why, HasSubstr("signature"));
}

TEST_F(TamperTest, EveryRemovedSegmentIsFound) {
  const std::vector<std::string> paths = SegmentFiles(dir_);
  for (const std::string& path : paths) {
    std::filesystem::rename(path, tmp_.Sub("away"));
    const VerifyReport report = MustVerify(dir_);
    EXPECT_FALSE(report.ok()) << path;
    std::filesystem::rename(tmp_.Sub("away"), path);
  }
  EXPECT_TRUE(MustVerify(dir_).ok());
}

TEST_F(TamperTest, ATailCutAtAnyRecordBelowTheLastCheckpointIsFound) {
  const std::string path = SegmentFiles(dir_).back();
  std::vector<std::string> lines = Lines(Slurp(path));
  while (!lines.empty()) {
    lines.pop_back();
    const VerifyReport report = With(path, Joined(lines));
    EXPECT_FALSE(report.ok()) << lines.size();
  }
}

TEST_F(TamperTest, ATailCutTogetherWithItsHeadIsFoundByAnAnchorKeptElsewhere) {
  const VerifyReport whole = MustVerify(dir_);
  VerifyOptions anchor{.kept = {{.where = "the auditor", .checkpoints = {{.seq = whole.last_seq}}}}};
  ASSERT_TRUE(conf::ParseHex(whole.last_link, anchor.kept[0].checkpoints[0].link));
  EXPECT_TRUE(MustVerify(dir_, anchor).ok());
  const std::string path = SegmentFiles(dir_).back();
  std::vector<std::string> lines = Lines(Slurp(path));
  std::filesystem::remove(path);
  const std::string head = Lines(Slurp(SegmentFiles(dir_).back())).back();
  Spill(dir_ + "/head.json", head + "\n");
  EXPECT_TRUE(MustVerify(dir_).ok()) << "the directory alone does not show this";
  EXPECT_FALSE(MustVerify(dir_, anchor).ok());
}

TEST_F(TamperTest, AMissingHeadAndAForeignKeyAreFound) {
  const std::string head = Slurp(dir_ + "/head.json");
  std::filesystem::remove(dir_ + "/head.json");
  EXPECT_FALSE(MustVerify(dir_).ok());
  Spill(dir_ + "/head.json", head);
  MustOpen(SmallOptions(tmp_.Sub("other")));
  absl::StatusOr<PublicKey> other = PublicKey::Load(tmp_.Sub("other") + "/signing.pub");
  absl::StatusOr<VerifyReport> report = Verify(dir_, *other);
  ASSERT_TRUE(report.ok());
  ASSERT_FALSE(report->ok());
  EXPECT_THAT(report->first_bad->why, HasSubstr("signature"));
}

TEST_F(TamperTest, RecordsThatARestartFoundMissingStayMissing) {
  const std::string path = SegmentFiles(dir_).back();
  std::filesystem::remove(path);
  ASSERT_TRUE(MustOpen(SmallOptions(dir_))->Stop().ok());
  const VerifyReport report = MustVerify(dir_);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.first_bad->why, HasSubstr("gone"));
}

TEST(Verify, RunsBesideAWorkingGateway) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.segment_bytes = 8192;
  auto ledger = MustOpen(options);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    for (int i = 0; i < 20'000 && !stop; ++i) {
      if (auto ticket = ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i))))
        ticket->Close(SomeClose());
    }
  });
  uint64_t told = 0;
  for (int i = 0; i < 30; ++i) {
    const VerifyReport report = MustVerify(dir, {.progress = [&](uint64_t done, uint64_t) { told = done; }});
    EXPECT_TRUE(report.ok()) << Why(report);
  }
  stop = true;
  worker.join();
  EXPECT_GT(told, 0u);
}

TEST(Verify, ReportsAMissingLedger) {
  TempDir tmp;
  MustOpen(SmallOptions(tmp.Sub("other")));
  absl::StatusOr<PublicKey> key = PublicKey::Load(tmp.Sub("other") + "/signing.pub");
  EXPECT_FALSE(Verify(tmp.Sub("nowhere"), *key).ok());
  std::filesystem::create_directory(tmp.Sub("empty"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Verify(tmp.Sub("empty"), *key).status()));
}

}  // namespace
}  // namespace gateway::ledger
