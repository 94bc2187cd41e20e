#include "gateway/ledger/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

using ::testing::HasSubstr;

// Runs until it is killed: requests with every kind of end, content, events from another thread, many segments and
// checkpoints. Writes a byte to `progress` when it has started, and one for each request.
[[noreturn]] void WorkUntilKilled(const std::string& dir, int progress, FileOps* files) {
  Options options = SmallOptions(dir);
  options.shards = 2;
  options.segment_bytes = 16 << 10;
  options.checkpoint_records = 20;
  options.files = files;
  absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Open(options);
  if (!ledger.ok() || write(progress, "r", 1) != 1) _exit(3);
  std::vector<std::thread> threads;
  for (uint32_t shard = 0; shard < options.shards; ++shard) {
    threads.emplace_back([&, shard] {
      std::vector<Ticket> running;
      for (uint64_t i = 0; write(progress, "p", 1) == 1; ++i) {
        const std::string request =
            "req_" + std::to_string(getpid()) + "_" + std::to_string(shard) + "_" + std::to_string(i);
        if (std::optional<Ticket> ticket = (*ledger)->Shard(shard).Open(SomeOpen(request))) {
          ticket->Progress({.input = 1000, .output = i % 50, .attempts = 1, .source = TokenSource::kCounted});
          if (i % 5 == 0) ticket->Content({.part = ContentPart::kPrompt, .text = "hello"});
          running.push_back(std::move(*ticket));
        }
        if (running.size() > 6) {
          running[i % running.size()].Close(SomeClose());
          running.erase(running.begin() + static_cast<ptrdiff_t>(i % running.size()));
        }
      }
    });
  }
  for (;;) (*ledger)->Append({.kind = Kind::kAdmin, .action = "changed"}).IgnoreError();
}

TEST(Kill9, AtAnyMomentLeavesEachOpenWithExactlyOneClose) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  std::mt19937 random(20261120);
  constexpr int kRounds = 60;
  size_t interrupted = 0;
  for (int round = 0; round < kRounds; ++round) {
    int progress[2];
    ASSERT_EQ(pipe(progress), 0);
    // One in four dies at a random point of its start or recovery, or a little later; the others die while they work.
    DeadlyDisk deadly(static_cast<int>(random() % 30));
    const bool at_start = round % 4 == 0;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WorkUntilKilled(dir, progress[1], at_start ? &deadly : nullptr);
    close(progress[1]);
    uint64_t requests = at_start ? ~uint64_t{0} : 1 + random() % 3000;
    char bytes[256];
    for (ssize_t n = 1; n > 0 && requests > 0; requests -= static_cast<uint64_t>(n)) {
      n = read(progress[0], bytes, std::min<uint64_t>(sizeof bytes, requests));
      EXPECT_GT(n + at_start, 0) << "the process ended by itself in round " << round;
    }
    kill(child, SIGKILL);
    close(progress[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "the process did not start in round " << round;
    if (round % 3 != 2) continue;  // the next child must recover from this one
    Options options = SmallOptions(dir);
    options.segment_bytes = 16 << 10;
    ASSERT_TRUE(MustOpen(options)->Stop().ok());
    const VerifyReport report = MustVerify(dir);
    ASSERT_TRUE(report.ok()) << Why(report);
    ASSERT_EQ(report.open_requests, 0u);
  }
  ExpectReconciled(dir);
  for (const Record& record : OfKind(dir, Kind::kClose)) {
    EXPECT_FALSE(record.request.empty());
    if (record.reason != "interrupted") continue;
    ++interrupted;
    EXPECT_EQ(record.tenant, "acme/search");
  }
  EXPECT_GT(interrupted, 0u);
}

TEST(Recovery, AnInterruptedRequestIsClosedWithItsCountedTokens) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  const std::string copy = tmp.Sub("copy");
  {
    auto ledger = MustOpen(SmallOptions(dir));
    std::optional<Ticket> on_disk = ledger->Shard(0).Open(SomeOpen("req_disk"));
    ASSERT_TRUE(ledger->Flush().ok());
    on_disk->Progress({.input = 11,
                       .cached = 5,
                       .output = 3,
                       .cost_micro_usd = 8,
                       .ttft_us = 70,
                       .attempts = 2,
                       .source = TokenSource::kCounted});
    on_disk->SetReplica("http://gpu-1");
    std::filesystem::copy(dir, copy);
  }
  ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
  const std::vector<Record> closes = OfKind(copy, Kind::kClose);
  ASSERT_EQ(closes.size(), 1u);
  EXPECT_EQ(closes[0].request, "req_disk");
  EXPECT_EQ(closes[0].reason, "interrupted");
  EXPECT_EQ(closes[0].input, 11);
  EXPECT_EQ(closes[0].cached, 5);
  EXPECT_EQ(closes[0].output, 3);
  EXPECT_EQ(closes[0].cost_micro_usd, 8);
  EXPECT_EQ(closes[0].ttft_us, 70);
  EXPECT_EQ(closes[0].source, "counted");
  EXPECT_EQ(closes[0].replica, "http://gpu-1");
  EXPECT_EQ(closes[0].client_request, "");
  EXPECT_EQ(OfKind(copy, Kind::kRecovery).at(0).action, "journals_replayed");
  // A second start has nothing more to recover.
  ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
  EXPECT_EQ(OfKind(copy, Kind::kClose).size(), 1u);
  EXPECT_TRUE(MustVerify(copy).ok());
}

TEST(Recovery, ACrashDuringRecoveryWritesNothingTwice) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  const std::string copy = tmp.Sub("copy");
  {
    auto ledger = MustOpen(SmallOptions(dir));
    std::optional<Ticket> ticket = ledger->Shard(0).Open(SomeOpen("req_1"));
    ledger->Shard(0).Open(SomeOpen("req_2"))->Close(SomeClose());
    ASSERT_TRUE(ledger->Flush().ok());
    std::filesystem::copy(dir, copy);
  }
  const std::string journal = Slurp(copy + "/journal-0");
  ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
  Spill(copy + "/journal-0", journal);  // as if it had died before it created new journals
  ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
  ExpectReconciled(copy);
  EXPECT_EQ(OfKind(copy, Kind::kClose).size(), 2u);
  EXPECT_TRUE(MustVerify(copy).ok());
}

TEST(Recovery, ALedgerCutAtAnyByteSetsTheTornBytesAsideAndContinues) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  {
    Options options = SmallOptions(dir);
    options.checkpoint_interval = std::chrono::hours(1);
    auto ledger = MustOpen(options);
    ledger->Shard(0).Open(SomeOpen("req_1"))->Close(SomeClose());
    ASSERT_TRUE(ledger->Flush().ok());
    std::filesystem::copy(dir, tmp.Sub("live"));
  }
  const std::string live = tmp.Sub("live");
  const std::string segment = SegmentFiles(live).at(0);
  const std::string name = std::filesystem::path(segment).filename().string();
  const std::string bytes = Slurp(segment);
  // Only the records after the checkpoint of the start may disappear without a trace.
  const size_t signed_end = bytes.find('\n', bytes.rfind("\"kind\":\"checkpoint\"")) + 1;
  ASSERT_LT(signed_end, bytes.size());
  std::filesystem::remove(live + "/journal-0");
  const std::string copy = tmp.Sub("copy");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    // Each takes ten times as long under a sanitizer.
    const bool at_an_end = cut < 2 || bytes.substr(cut - 2, 4).find('\n') != std::string::npos;
    if (tests::kSanitized && !at_an_end && cut % 7 != 0) continue;
    std::filesystem::remove_all(copy);
    std::filesystem::copy(live, copy);
    Spill(copy + "/" + name, bytes.substr(0, cut));
    Options options = SmallOptions(copy);
    ASSERT_TRUE(MustOpen(options)->Stop().ok()) << cut;
    const size_t whole = cut == 0                                          ? 0
                         : bytes.rfind('\n', cut - 1) == std::string::npos ? 0
                                                                           : bytes.rfind('\n', cut - 1) + 1;
    const std::string torn = copy + "/" + name + "." + std::to_string(whole) + ".torn";
    ASSERT_EQ(std::filesystem::exists(torn), whole < cut) << cut;
    if (whole < cut) {
      ASSERT_EQ(Slurp(torn), bytes.substr(whole, cut - whole));
    }
    ASSERT_EQ(Slurp(copy + "/" + name).substr(0, whole), bytes.substr(0, whole)) << cut;
    const VerifyReport report = MustVerify(copy);
    ASSERT_EQ(report.ok(), cut >= signed_end) << cut << " " << Why(report);
    if (report.ok()) ExpectReconciled(copy);
    if (whole < cut) {
      ASSERT_EQ(OfKind(copy, Kind::kRecovery).at(0).action, "torn_tail_set_aside");
    }
  }
}

TEST(Recovery, JournalsFromAnyMomentNeverDuplicateRecords) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  std::vector<std::string> journals;
  {
    auto ledger = MustOpen(SmallOptions(dir));
    std::vector<Ticket> running;
    for (int i = 0; i < 12; ++i) {
      running.push_back(*ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i))));
      if (i % 3 == 2) running.erase(running.begin());  // a dropped ticket closes its request as interrupted
      journals.push_back(Slurp(dir + "/journal-0"));
      if (i % 2 == 0) ASSERT_TRUE(ledger->Flush().ok());
    }
    ASSERT_TRUE(ledger->Flush().ok());
    std::filesystem::copy(dir, tmp.Sub("live"));
  }
  for (const std::string& journal : journals) {
    const std::string copy = tmp.Sub("copy");
    std::filesystem::remove_all(copy);
    std::filesystem::copy(tmp.Sub("live"), copy);
    Spill(copy + "/journal-0", journal);  // the host lost its page cache: an older state is back
    ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
    ExpectReconciled(copy);
    const VerifyReport report = MustVerify(copy);
    EXPECT_TRUE(report.ok()) << Why(report);
  }
}

TEST(Recovery, AnEventsDetailIsNeverTakenForAPlaceInAJournal) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.checkpoint_interval = std::chrono::hours(1);
  auto ledger = MustOpen(options);
  ASSERT_TRUE(ledger->Append({.kind = Kind::kAdmin, .detail = R"({"a":1,"shard":0,"n":1000000})"}).ok());
  const std::string copy = tmp.Sub("copy");
  std::filesystem::copy(dir, copy);
  auto again = MustOpen(SmallOptions(copy));
  EXPECT_EQ(again->Shard(0).Open(SomeOpen("req_1"))->position().n, 1u);
  ASSERT_TRUE(again->Stop().ok());
  ExpectReconciled(copy);
}

TEST(Recovery, ADamagedJournalIsMovedAsideAndReported) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  MustOpen(SmallOptions(dir));
  Spill(dir + "/journal-0", "garbage");
  ASSERT_TRUE(MustOpen(SmallOptions(dir))->Stop().ok());
  EXPECT_EQ(Slurp(dir + "/journal-0.unreadable"), "garbage");
  EXPECT_THAT(OfKind(dir, Kind::kRecovery).at(0).detail, HasSubstr("\"unreadable_files\":1"));
  EXPECT_TRUE(MustVerify(dir).ok());
}

TEST(Recovery, DamageBeforeALaterCheckpointIsNotCutAwayAndStaysVisible) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  {
    auto ledger = MustOpen(SmallOptions(dir));
    ledger->Shard(0).Open(SomeOpen("req_1"))->Close(SomeClose());
  }
  const std::string segment = SegmentFiles(dir).at(0);
  std::string bytes = Slurp(segment);
  const size_t at = bytes.find("\"output\":20");
  bytes.replace(at, 11, "\"output\":10");
  Spill(segment, bytes);
  ASSERT_TRUE(MustOpen(SmallOptions(dir))->Stop().ok());
  EXPECT_EQ(Slurp(segment).substr(0, bytes.size()), bytes);
  EXPECT_EQ(OfKind(dir, Kind::kRecovery).at(0).action, "damaged_record_found");
  const VerifyReport report = MustVerify(dir);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.first_bad->why, HasSubstr("changed"));
}

TEST(Recovery, FewerShardsThanBeforeStillDrainEveryJournal) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.shards = 4;
  {
    auto ledger = MustOpen(options);
    std::optional<Ticket> ticket = ledger->Shard(3).Open(SomeOpen("req_1"));
    ASSERT_TRUE(ledger->Flush().ok());
    std::filesystem::copy(dir, tmp.Sub("copy"));
  }
  const std::string copy = tmp.Sub("copy");
  ASSERT_TRUE(MustOpen(SmallOptions(copy))->Stop().ok());
  ExpectReconciled(copy);
  EXPECT_EQ(OfKind(copy, Kind::kOpen).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(copy + "/journal-3"));
}

}  // namespace
}  // namespace gateway::ledger
