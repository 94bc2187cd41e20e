#include "gateway/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <thread>

#include "gateway/ledger/index.h"
#include "gateway/ledger/indexer.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

using ::testing::HasSubstr;

TEST(Ledger, ARequestHasOneOpenAndOneCloseThatNamesIt) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  auto ledger = MustOpen(SmallOptions(dir));
  std::optional<Ticket> ticket = ledger->Shard(0).Open(SomeOpen("req_1"));
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(ticket->Content({.part = ContentPart::kPrompt, .text = "hello"}));
  ticket->Close(SomeClose());
  ASSERT_TRUE(ledger->Stop().ok());
  const std::vector<Record> closes = OfKind(dir, Kind::kClose);
  ASSERT_EQ(closes.size(), 1u);
  const std::vector<Record> opens = OfKind(dir, Kind::kOpen);
  ASSERT_EQ(opens.size(), 1u);
  EXPECT_EQ(closes[0].open_seq, opens[0].seq);
  EXPECT_EQ(closes[0].tenant, "acme/search");
  EXPECT_EQ(closes[0].key, "key_7");
  EXPECT_EQ(closes[0].reason, "done");
  EXPECT_EQ(closes[0].output, 20);
  EXPECT_EQ(closes[0].queue_us, -1);
  EXPECT_EQ(OfKind(dir, Kind::kContent).at(0).text, "hello");
  EXPECT_EQ(OfKind(dir, Kind::kStop).size(), 1u);
  const VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
  EXPECT_EQ(report.unsigned_records, 0u);
  EXPECT_EQ(report.open_requests, 0u);
}

TEST(Ledger, ARefusedRequestHasOneCloseAndNoOpen) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  auto ledger = MustOpen(SmallOptions(dir));
  CloseRecord close = SomeClose(EndReason::kRefused);
  close.limit = "requests_per_minute";
  ASSERT_TRUE(ledger->Shard(0).Refuse(SomeOpen("req_1"), close));
  ASSERT_TRUE(ledger->Flush().ok());
  const std::vector<Record> closes = OfKind(dir, Kind::kClose);
  ASSERT_EQ(closes.size(), 1u);
  EXPECT_EQ(closes[0].open_seq, 0u);
  EXPECT_EQ(closes[0].limit, "requests_per_minute");
  EXPECT_EQ(closes[0].client, "10.0.0.9");
  EXPECT_TRUE(OfKind(dir, Kind::kOpen).empty());
  EXPECT_TRUE(MustVerify(dir).ok());
}

TEST(Ledger, AnEventIsOnDiskWhenAppendReturns) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  auto ledger = MustOpen(SmallOptions(dir));
  const Event event{.kind = Kind::kKey,
                    .action = "revoked",
                    .actor = "admin_1",
                    .subject = "key_7",
                    .tenant = "acme",
                    .detail = "{ \"why\" : \"leaked\" }"};
  ASSERT_TRUE(ledger->Append(event).ok());
  const std::vector<Record> keys = OfKind(dir, Kind::kKey);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].detail, R"({"why":"leaked"})");
  EXPECT_EQ(keys[0].subject, "key_7");
  EXPECT_TRUE(absl::IsInvalidArgument(ledger->Append({.kind = Kind::kKey, .detail = "nonsense"})));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger->Append({.kind = Kind::kCheckpoint})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ledger->Append({.kind = Kind::kAdmin, .action = std::string(kMaxEvent + 1, '\x01')})));
  EXPECT_TRUE(ledger->Append({.kind = Kind::kAdmin, .action = std::string(kMaxEvent, '\x01')}).ok());
  ASSERT_TRUE(ledger->Stop().ok());
  EXPECT_TRUE(absl::IsUnavailable(ledger->Append(event)));
}

TEST(Ledger, StrictDurabilityCallsBackOnlyWhenTheOpenIsOnDisk) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.commit_interval = std::chrono::seconds(60);  // so that only the request wakes the thread
  auto ledger = MustOpen(options);
  std::optional<Ticket> ticket = ledger->Shard(0).Open(SomeOpen("req_1"));
  std::mutex mutex;
  std::condition_variable called;
  absl::StatusOr<size_t> seen = absl::UnknownError("not yet");
  ledger->OnDurable(ticket->position(), [&](const absl::Status& status) {
    const std::lock_guard lock(mutex);
    seen = status.ok() ? absl::StatusOr<size_t>(OfKind(dir, Kind::kOpen).size()) : status;
    called.notify_one();
  });
  std::unique_lock lock(mutex);
  ASSERT_TRUE(
      called.wait_for(lock, std::chrono::seconds(30), [&] { return !absl::IsUnknown(seen.status()); }));
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(*seen, 1u);
  EXPECT_TRUE(ledger->IsDurable(ticket->position()));
}

TEST(Ledger, AFailingDiskIsReportedAtOnceToWaitersForOpenRecords) {
  TempDir tmp;
  FailingDisk disk;
  Options options = SmallOptions(tmp.Sub("ledger"));
  options.files = &disk;
  auto ledger = MustOpen(options);
  std::optional<Ticket> durable = ledger->Shard(0).Open(SomeOpen("req_1"));
  ASSERT_TRUE(ledger->Flush().ok());
  disk.bad_sync = true;
  std::optional<Ticket> waits = ledger->Shard(0).Open(SomeOpen("req_2"));
  std::promise<absl::Status> called;
  ledger->OnDurable(waits->position(), [&](const absl::Status& status) { called.set_value(status); });
  std::future<absl::Status> answer = called.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_TRUE(absl::IsUnavailable(answer.get()));
  std::promise<absl::Status> late;  // for a record that is already on disk
  ledger->OnDurable(durable->position(), [&](const absl::Status& status) { late.set_value(status); });
  EXPECT_TRUE(late.get_future().get().ok());
  disk.bad_sync = false;
}

TEST(Ledger, HasOneWriter) {
  TempDir tmp;
  auto ledger = MustOpen(SmallOptions(tmp.Sub("ledger")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Ledger::Open(SmallOptions(tmp.Sub("ledger"))).status()));
}

TEST(Ledger, DoesNotStartWhenTheKeyOfItsRecordsIsMissing) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  MustOpen(SmallOptions(dir));
  std::filesystem::remove(dir + "/signing.key");
  const absl::Status status = Ledger::Open(SmallOptions(dir)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST(Ledger, RefusesASigningKeyThatOthersCanRead) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  MustOpen(SmallOptions(dir));
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(dir + "/signing.key").permissions(),
            perms::owner_read | perms::owner_write);
  std::filesystem::permissions(dir + "/signing.key", perms::others_read, std::filesystem::perm_options::add);
  EXPECT_TRUE(absl::IsFailedPrecondition(Ledger::Open(SmallOptions(dir)).status()));
}

TEST(Ledger, SegmentsAreSealedAtTheirSizeAndTheChainContinues) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.segment_bytes = 4096;
  auto ledger = MustOpen(options);
  for (int i = 0; i < 60; ++i) {
    ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i)))->Close(SomeClose());
    ASSERT_TRUE(ledger->Flush().ok());
  }
  ASSERT_TRUE(ledger->Stop().ok());
  EXPECT_GT(SegmentFiles(dir).size(), 5u);
  const VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
  ExpectReconciled(dir);
}

TEST(Ledger, RetentionRemovesWholeSegmentsAndTheRestStillVerifies) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.segment_bytes = 4096;
  options.retain_bytes = 20'000;
  options.retention_interval = conf::Duration::zero();
  auto ledger = MustOpen(options);
  for (int i = 0; i < 200; ++i) {
    ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i)))->Close(SomeClose());
    ASSERT_TRUE(ledger->Flush().ok());
  }
  ASSERT_TRUE(ledger->Stop().ok());
  EXPECT_FALSE(OfKind(dir, Kind::kRetention).empty());
  uintmax_t bytes = 0;
  for (const std::string& path : SegmentFiles(dir)) bytes += std::filesystem::file_size(path);
  EXPECT_LT(bytes, 20'000u + 3 * 4096u);
  VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
  EXPECT_GT(report.first_seq, 1u);
  std::filesystem::remove(SegmentFiles(dir)[0]);
  report = MustVerify(dir);
  ASSERT_FALSE(report.ok()) << "a removal without a retention record must be found";
  EXPECT_THAT(report.first_bad->why, HasSubstr("retention"));
}

TEST(Ledger, RetentionKeepsTheOpenRecordOfARunningRequest) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.segment_bytes = 4096;
  options.retain_bytes = 1;
  options.retention_interval = conf::Duration::zero();
  auto ledger = MustOpen(options);
  std::optional<Ticket> longest = ledger->Shard(0).Open(SomeOpen("req_long"));
  for (int i = 0; i < 60; ++i) {
    ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i)))->Close(SomeClose());
    ASSERT_TRUE(ledger->Flush().ok());
  }
  EXPECT_EQ(OfKind(dir, Kind::kOpen).at(0).request, "req_long");
  longest->Close(SomeClose());
  ASSERT_TRUE(ledger->Stop().ok());
}

class DiskTest : public ::testing::TestWithParam<bool> {};

TEST_P(DiskTest, AFullOrFailingDiskRefusesNewWorkAndLosesNothing) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  FailingDisk disk;
  Options options = SmallOptions(dir);
  options.files = &disk;
  options.append_timeout = std::chrono::milliseconds(200);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<absl::StatusCode> health;
  options.on_health_change = [&](const absl::Status& status) {
    const std::lock_guard lock(mutex);
    health.push_back(status.code());
    changed.notify_all();
  };
  const auto await_changes = [&](size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30), [&] { return health.size() >= count; });
  };
  auto ledger = MustOpen(options);
  const auto flushes = [&] {  // may take longer than append_timeout, which is short here for the full disk
    for (int i = 0; i < 150; ++i) {
      if (ledger->Flush().ok()) return true;
    }
    return false;
  };
  std::vector<Ticket> running;
  for (int i = 0; i < 10; ++i)
    running.push_back(*ledger->Shard(0).Open(SomeOpen("req_" + std::to_string(i))));
  ASSERT_TRUE(flushes());

  (GetParam() ? disk.full : disk.bad_sync) = true;
  running[0].Close(SomeClose());
  ASSERT_TRUE(await_changes(1));
  EXPECT_FALSE(ledger->Healthy());
  EXPECT_FALSE(ledger->Shard(0).Open(SomeOpen("req_refused")));
  for (size_t i = 1; i < running.size(); ++i) running[i].Close(SomeClose());
  EXPECT_TRUE(absl::IsUnavailable(ledger->Append({.kind = Kind::kAdmin, .action = "changed"})));
  const Stats stats = ledger->GetStats();
  EXPECT_FALSE(stats.healthy);
  EXPECT_GT(stats.queued_bytes, 0u);
  EXPECT_FALSE(stats.last_error.empty());

  (GetParam() ? disk.full : disk.bad_sync) = false;
  ASSERT_TRUE(await_changes(2));
  EXPECT_EQ(health.back(), absl::StatusCode::kOk);
  ASSERT_TRUE(flushes());
  EXPECT_TRUE(ledger->Shard(0).Open(SomeOpen("req_again")));
  ASSERT_TRUE(ledger->Stop().ok());
  const VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
  ExpectReconciled(dir);
  EXPECT_EQ(OfKind(dir, Kind::kOpen).size(), 11u);
  EXPECT_TRUE(OfKind(dir, Kind::kAdmin).empty());
}

INSTANTIATE_TEST_SUITE_P(FullOrBad, DiskTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Full" : "BadSync"; });

TEST(Ledger, RecordsThatAFullDiskRefusedAreWrittenAtTheNextStart) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  FailingDisk disk;
  Options options = SmallOptions(dir);
  options.files = &disk;
  options.stop_timeout = conf::Duration::zero();
  {
    auto ledger = MustOpen(options);
    std::optional<Ticket> ticket = ledger->Shard(0).Open(SomeOpen("req_1"));
    ASSERT_TRUE(ledger->Flush().ok());
    disk.full = true;
    ticket->Close(SomeClose());
    EXPECT_FALSE(ledger->Stop().ok());
  }
  disk.full = false;
  ASSERT_TRUE(MustOpen(options)->Stop().ok());
  EXPECT_EQ(OfKind(dir, Kind::kClose).at(0).reason, "done");
  ExpectReconciled(dir);
  const VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
}

TEST(Ledger, ManyShardsAndThreadsAtOnceNeitherLoseNorRepeatRecords) {
  TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  Options options = SmallOptions(dir);
  options.shards = 3;
  options.segment_bytes = 64 << 10;
  options.checkpoint_records = 50;
  auto ledger = MustOpen(options);
  constexpr int kRequests = 400;
  std::atomic<int> admitted{0};
  {
    Indexer indexer(dir, std::chrono::milliseconds(1));
    std::vector<std::thread> threads;
    for (uint32_t shard = 0; shard < options.shards; ++shard) {
      threads.emplace_back([&, shard] {
        std::vector<Ticket> running;
        for (int i = 0; i < kRequests; ++i) {
          std::optional<Ticket> ticket =
              ledger->Shard(shard).Open(SomeOpen("req_" + std::to_string(shard) + "_" + std::to_string(i)));
          if (!ticket) {
            running.clear();
            std::this_thread::yield();
            continue;
          }
          ++admitted;
          ticket->Progress({.output = static_cast<uint64_t>(i)});
          running.push_back(std::move(*ticket));
          if (running.size() > 8) {
            running.front().Close(SomeClose());
            running.erase(running.begin());
          }
        }
        for (Ticket& ticket : running) ticket.Close(SomeClose());
      });
    }
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          EXPECT_TRUE(ledger->Append({.kind = Kind::kAdmin, .action = "changed"}).ok());
          ledger->GetStats();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(indexer.last_error(), "");
  }
  ASSERT_TRUE(ledger->Stop().ok());
  const VerifyReport report = MustVerify(dir);
  EXPECT_TRUE(report.ok()) << Why(report);
  ExpectReconciled(dir);
  EXPECT_EQ(OfKind(dir, Kind::kOpen).size(), static_cast<size_t>(admitted));
  EXPECT_EQ(OfKind(dir, Kind::kAdmin).size(), 40u);
  absl::StatusOr<std::vector<UsageRow>> usage = QueryUsage(dir, {});
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->at(0).requests, admitted);
}

}  // namespace
}  // namespace gateway::ledger
