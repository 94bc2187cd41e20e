// The spend of budgets, whichever segments are removed and whenever the process dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "conf/time.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/spend.h"
#include "gateway/net/files.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

conf::TimePoint At(const char* time) {
  return *conf::ParseTime(time);
}

// A disk that cannot remove files while `keeps_files`.
class UndeletingDisk : public FileOps {
 public:
  absl::Status Remove(const std::string& path) override {
    ++asked;
    return keeps_files ? net::SystemError("remove", path, EBUSY) : FileOps::Remove(path);
  }
  std::atomic<bool> keeps_files{false};
  std::atomic<int> asked{0};
};

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() {
    options_ = SmallOptions(dir_);
    options_.segment_bytes = 4096;
    options_.retention_interval = conf::Duration::zero();
    options_.clock = [this] { return now_.load(); };
    options_.files = &disk_;
  }
  void Start() { ledger_ = MustOpen(options_); }
  void Stop() {
    ASSERT_TRUE(ledger_->Stop().ok());
    ledger_.reset();
  }
  void Call(std::string_view key, const char* opened, const char* closed) {
    OpenRecord open = SomeOpen("req");
    open.key = key;
    open.time_us = conf::ToUnixMicros(At(opened));
    CloseRecord close = SomeClose();
    close.time_us = conf::ToUnixMicros(At(closed));
    ledger_->Shard(0).Open(open)->Close(close);
    ++calls_;
    ASSERT_TRUE(ledger_->Flush().ok());
  }
  void CallMany(int times) {
    for (int i = 0; i < times; ++i) {
      Call("key_" + std::to_string(i % 3), i % 2 == 0 ? "2026-11-05T10:00:00Z" : "2026-11-19T10:00:00Z",
           "2026-11-20T09:00:00Z");
    }
  }
  static void ForgetIndex(const std::string& dir) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(dir + "/index.sqlite" + suffix);
  }
  // The number of paid calls since that day: each costs the same.
  int64_t Paid(const char* day, std::string_view key = "") {
    const absl::StatusOr<std::vector<SpendRow>> rows = SpentSince(dir_, At(day));
    EXPECT_TRUE(rows.ok()) << rows.status();
    int64_t cost = 0;
    for (const SpendRow& row : *rows) {
      if (key.empty() || row.key == key) cost += row.cost_micro_usd;
    }
    EXPECT_EQ(cost % 27, 0);
    return cost / 27;
  }
  uint64_t FirstSeq() { return ListSegments(dir_)->at(0).first_seq; }

  TempDir tmp_;
  const std::string dir_ = tmp_.Sub("ledger");
  std::atomic<conf::TimePoint> now_{At("2026-11-20T12:00:00Z")};
  UndeletingDisk disk_;
  Options options_;
  std::unique_ptr<Ledger> ledger_;
  int64_t calls_ = 0;
};

TEST_F(RetentionTest, SpendingInRemovedSegmentsCountsForRunningBudgets) {
  options_.retain_bytes = 20'000;
  Start();
  CallMany(300);
  Call("key_0", "2026-10-31T23:59:59Z", "2026-11-20T09:00:00Z");
  EXPECT_EQ(Paid("2026-11-01"), 300) << "by an index that applied the removal";
  Stop();
  EXPECT_GT(FirstSeq(), 400u);
  ForgetIndex(dir_);
  EXPECT_EQ(Paid("2026-11-01"), 300);
  EXPECT_EQ(Paid("2026-11-01", "key_1"), 100);
  EXPECT_EQ(Paid("2026-11-16"), 150) << "the week";
  EXPECT_EQ(Paid("2026-11-20"), 0) << "the day";
  uintmax_t bytes = 0;
  for (const std::string& path : SegmentFiles(dir_)) bytes += std::filesystem::file_size(path);
  EXPECT_LT(bytes, 20'000u + 3 * 4096u);
  const VerifyReport report = MustVerify(dir_);
  EXPECT_TRUE(report.ok()) << Why(report);
}

TEST_F(RetentionTest, SpendingOutsideRunningPeriodsIsDropped) {
  options_.retain_bytes = 20'000;
  Start();
  CallMany(60);
  now_ = At("2026-12-03T00:00:00Z");
  for (int i = 0; i < 60; ++i) Call("key_9", "2026-12-02T00:00:00Z", "2026-12-02T00:00:01Z");
  EXPECT_EQ(Paid("2026-01-01"), 60);
  Stop();
}

TEST_F(RetentionTest, AnUnremovableFileIsReportedOnceRecordedOnceAndRetried) {
  options_.retain_bytes = 1;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<absl::StatusCode> reported;
  options_.on_retention_change = [&](const absl::Status& status) {
    const std::lock_guard lock(mutex);
    reported.push_back(status.code());
    changed.notify_all();
  };
  const auto await = [&](const std::function<bool()>& what) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30), what);
  };
  disk_.keeps_files = true;
  Start();
  CallMany(20);
  ASSERT_TRUE(await([&] { return !reported.empty(); }));
  const int asked = disk_.asked;
  for (int i = 0; i < 10 || disk_.asked < asked + 5; ++i) CallMany(1);
  EXPECT_TRUE(ledger_->Healthy());
  EXPECT_TRUE(ledger_->GetStats().retention_failing);
  EXPECT_EQ(OfKind(dir_, Kind::kRetention).size(), 1u);
  EXPECT_EQ(FirstSeq(), 1u);
  EXPECT_EQ(Paid("2026-11-01"), calls_) << "its closes count once, in the segment or carried on";
  disk_.keeps_files = false;
  ASSERT_TRUE(await([&] { return reported.size() >= 2; }));
  EXPECT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[1], absl::StatusCode::kOk);
  EXPECT_FALSE(ledger_->GetStats().retention_failing);
  Stop();
  EXPECT_EQ(Paid("2026-11-01"), calls_);
}

// 700 keys need two records. The first removal is recorded, and the process dies before it removes anything. Each
// round has a different number of lines of that write on disk.
TEST_F(RetentionTest, ACrashDuringARemovalCountsNothingTwiceAndLosesNothing) {
  constexpr int kKeys = 700;
  options_.segment_bytes = 1 << 20;
  Start();
  for (int i = 0; i < kKeys; ++i) {
    OpenRecord open = SomeOpen("req");
    const std::string key = "key_" + std::to_string(i);
    open.key = key;
    open.time_us = conf::ToUnixMicros(At("2026-11-05T10:00:00Z"));
    ledger_->Shard(0).Open(open)->Close(SomeClose());
    if (i % 10 == 0) {
      ASSERT_TRUE(ledger_->Flush().ok());
    }
  }
  Stop();
  options_.segment_bytes = 4096;
  Start();
  CallMany(1);  // seals the large segment, and begins one
  CallMany(1);
  ASSERT_TRUE(ledger_->Flush().ok());
  Stop();
  ASSERT_GT(SegmentFiles(dir_).size(), 1u);
  disk_.keeps_files = true;
  options_.segment_bytes = 1 << 20;
  options_.retain_bytes = 1;
  Start();
  while (disk_.asked == 0) ASSERT_TRUE(ledger_->Flush().ok());
  Stop();
  ASSERT_EQ(FirstSeq(), 1u);
  const int64_t all = kKeys + 2;

  const std::string last = SegmentFiles(dir_).back();
  std::vector<std::string> lines = Lines(Slurp(last));
  size_t removal = 0;
  while (removal < lines.size() && lines[removal].find(R"("kind":"retention")") == std::string::npos)
    ++removal;
  ASSERT_LT(removal + 2, lines.size());
  ASSERT_THAT(lines[removal + 1], ::testing::HasSubstr(R"("number":2,"of":2)"));
  for (const size_t kept : {size_t{3}, size_t{2}, size_t{1}, size_t{0}}) {
    SCOPED_TRACE(kept);
    lines.resize(removal + kept);
    Spill(last, Joined(lines));
    std::filesystem::remove(dir_ + "/head.json");
    ForgetIndex(dir_);
    EXPECT_EQ(Paid("2026-11-01"), all);
    const std::string before = tmp_.Sub("before");
    std::filesystem::remove_all(before);
    std::filesystem::copy(dir_, before, std::filesystem::copy_options::recursive);
    disk_.keeps_files = false;
    Start();
    while (FirstSeq() == 1) ASSERT_TRUE(ledger_->Flush().ok());
    EXPECT_EQ(Paid("2026-11-01"), all);
    Stop();
    ForgetIndex(dir_);
    EXPECT_EQ(Paid("2026-11-01"), all);
    const VerifyReport report = MustVerify(dir_);
    EXPECT_TRUE(report.ok()) << Why(report);
    std::filesystem::remove_all(dir_);
    std::filesystem::rename(before, dir_);
  }
}

TEST_F(RetentionTest, ASegmentWithOnlyCarriedRowsIsNotRewrittenForEver) {
  options_.segment_bytes = 1 << 20;
  Start();
  for (int i = 0; i < 200; ++i) {
    OpenRecord open = SomeOpen("r");
    const std::string key = "key_" + std::to_string(i) + std::string(100, 'k');
    open = {.time_us = conf::ToUnixMicros(At("2026-11-05T10:00:00Z")), .tenant = "t", .key = key};
    ledger_->Shard(0).Open(open)->Close({.counts = {.cost_micro_usd = 27}});
    ASSERT_TRUE(ledger_->Flush().ok());
  }
  Stop();
  options_.segment_bytes = 4096;
  options_.retain_bytes = 1;
  Start();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(ledger_->Flush().ok());
  Stop();
  EXPECT_LT(OfKind(dir_, Kind::kRetention).size(), 5u);
  EXPECT_EQ(Paid("2026-11-01"), 200);
}

TEST_F(RetentionTest, SpendCountsWhenARequestWasAdmittedNotWhenItEnded) {
  Start();
  Call("key_1", "2026-10-31T23:59:50Z", "2026-11-01T00:00:05Z");
  Call("key_2", "2026-11-01T00:00:00Z", "2026-11-01T00:00:05Z");
  Call("jwt:okta:alice", "2026-11-02T00:00:00Z", "2026-11-02T00:00:05Z");
  Call("jwt:okta:bob", "2026-11-02T00:00:00Z", "2026-11-02T00:00:05Z");
  CloseRecord old = SomeClose();  // an old record, without the time of admission
  old.time_us = conf::ToUnixMicros(At("2026-11-03T00:00:00Z"));
  OpenRecord of = SomeOpen("req");
  of.key = "key_3";
  ASSERT_TRUE(ledger_->Shard(0).Refuse(of, old));
  ASSERT_TRUE(ledger_->Flush().ok());
  EXPECT_EQ(Paid("2026-11-01", "key_1"), 0);
  EXPECT_EQ(Paid("2026-10-01", "key_1"), 1);
  EXPECT_EQ(Paid("2026-11-01", "key_2"), 1);
  EXPECT_EQ(Paid("2026-11-03", "key_3"), 1);
  EXPECT_EQ(Paid("2026-11-04"), 0);
  const absl::StatusOr<std::vector<SpendRow>> bearers = SpentSince(dir_, At("2026-11-01"));
  ASSERT_TRUE(bearers.ok());
  ASSERT_EQ(bearers->size(), 3u) << "all bearers share one row";
  EXPECT_EQ(bearers->at(0).key, "");
  EXPECT_EQ(bearers->at(0).cost_micro_usd, 2 * 27);
}

TEST_F(RetentionTest, ARequestThatARestartClosesCountsWhenItWasAdmitted) {
  now_ = At("2026-10-31T23:59:00Z");
  Start();
  OpenRecord open = SomeOpen("req");
  open.time_us = conf::ToUnixMicros(now_);
  std::optional<Ticket> ticket = ledger_->Shard(0).Open(open);
  ticket->Progress(SomeClose().counts);
  ASSERT_TRUE(ledger_->Flush().ok());
  const std::string killed = tmp_.Sub("killed");
  std::filesystem::copy(dir_, killed, std::filesystem::copy_options::recursive);
  now_ = At("2026-11-01T09:00:00Z");
  options_.dir = killed;
  ASSERT_TRUE(MustOpen(options_)->Stop().ok());
  EXPECT_EQ(OfKind(killed, Kind::kClose).at(0).reason, "interrupted");
  EXPECT_TRUE(SpentSince(killed, At("2026-11-01"))->empty());
  EXPECT_EQ(SpentSince(killed, At("2026-10-01"))->at(0).cost_micro_usd, 27);
  ticket->Close(SomeClose());
}

TEST(FoldDay, MergesRecordsThatNoPeriodDistinguishes) {
  struct Case {
    const char* today;
    const char* day;
    const char* folded;
  };
  // 2026-11-02 and -09 are Mondays; 2026-12-01 is a Tuesday.
  for (const Case& c : {Case{"2026-11-12", "2026-11-12", "2026-11-12"},
                        {"2026-11-12", "2026-11-11", "2026-11-09"},
                        {"2026-11-12", "2026-11-09", "2026-11-09"},
                        {"2026-11-12", "2026-11-08", "2026-11-01"},
                        {"2026-11-12", "2026-11-01", "2026-11-01"},
                        {"2026-11-12", "2026-10-31", ""},
                        {"2026-12-03", "2026-12-02", "2026-12-01"},
                        {"2026-12-03", "2026-11-30", "2026-11-30"},
                        {"2026-12-03", "2026-11-29", ""},
                        {"2026-11-12", "2026-11-13", "2026-11-13"}}) {
    const auto day = [](const char* date) { return DayOf(conf::ToUnixMicros(At(date))); };
    const std::optional<int64_t> folded = FoldDay(day(c.day), day(c.today));
    EXPECT_EQ(folded.has_value(), *c.folded != '\0') << c.today << " " << c.day;
    if (folded && *c.folded != '\0') EXPECT_EQ(*folded, day(c.folded)) << c.today << " " << c.day;
  }
}

}  // namespace
}  // namespace gateway::ledger
