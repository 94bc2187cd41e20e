#include "gateway/audit/audit_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <semaphore>
#include <set>

#include "conf/text.h"
#include "gateway/net/files.h"
#include "plugins/sinks/webhook.h"
#include "tests/support/http_peer.h"
#include "tests/support/temp_dir.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using net::Now;
using net::Task;
using plugins::sinks::BatchLimits;
using plugins::sinks::Record;
using plugins::sinks::Sink;
using plugins::sinks::WebhookSink;
using ::testing::HasSubstr;
using tests::Eventually;
using tests::HttpPeer;
using tests::ReadFile;
using tests::RunOnLoop;
using tests::TempDir;
using tests::TestLoop;

// A ledger's tail: records first..last, each `bytes` long. Read off the loop.
struct Tail {
  std::atomic<uint64_t> last = 0;
  std::atomic<uint64_t> first = 1;
  std::atomic<bool> broken = false;
  std::atomic<size_t> given = 0;  // records
  size_t bytes = 10;
  std::set<uint64_t> damaged;
  char ledger = 'a';  // a hexadecimal digit

  std::string Link(uint64_t seq) const { return fmt::format("{:063}{}", seq, ledger); }
  std::string Cursor(uint64_t seq) const { return fmt::format("{} {}\n", seq, Link(seq)); }

  AuditDelivery::Source Source() {
    return {[this](uint64_t after, size_t max) -> absl::StatusOr<std::vector<Record>> {
              if (broken) return absl::DataLossError("segment 3 is damaged");
              std::vector<Record> records;
              for (uint64_t seq = std::max(after + 1, first.load()); seq <= last && records.size() < max;
                   ++seq) {
                if (damaged.contains(seq)) continue;
                records.push_back({seq, Now() - 1min, fmt::format("{:0{}}", seq, bytes), Link(seq)});
              }
              given += records.size();
              return records;
            },
            [this](uint64_t seq) -> absl::StatusOr<std::string> {
              return seq >= first && seq <= last ? Link(seq) : "";
            },
            [this] { return last.load(); }};
  }
};

// What a sink was given, and whether it took it.
struct Log {
  std::vector<std::pair<uint64_t, uint64_t>> tried;  // first and last of each batch
  std::vector<uint64_t> delivered;
  absl::Status answer;
  size_t most = SIZE_MAX;  // records in a batch; larger ones are too large
};

class LogSink final : public Sink {
 public:
  LogSink(Log& log, BatchLimits limits) : log_(log), limits_(limits) {}
  std::string Describe() const override { return "log"; }
  BatchLimits limits() const override { return limits_; }
  Task<absl::Status> Deliver(std::span<const Record> batch, conf::TimePoint) override {
    log_.tried.emplace_back(batch.front().seq, batch.back().seq);
    if (batch.size() > log_.most) co_return absl::ResourceExhaustedError("too large");
    if (log_.answer.ok()) {
      for (const Record& record : batch) log_.delivered.push_back(record.seq);
    }
    co_return log_.answer;
  }

 private:
  Log& log_;
  BatchLimits limits_;
};

std::unique_ptr<Sink> To(Log& log, BatchLimits limits = {}) {
  return std::make_unique<LogSink>(log, limits);
}

AuditDelivery::Options Fast(const TempDir& folder) {
  AuditDelivery::Options options;
  options.name = "siem";
  const std::string path = folder / "sinks/siem.cursor";
  std::filesystem::create_directories(folder / "sinks");
  if (std::filesystem::exists(path)) options.position = ReadFile(path);
  options.save = [path](std::string text) -> Task<absl::Status> {
    co_return gateway::net::ReplaceFile(path, text);
  };
  options.batch_interval = 10ms;
  options.min_backoff = 10ms;
  options.max_backoff = 20ms;
  return options;
}

std::unique_ptr<AuditDelivery> Start(net::Loop& loop, Tail& tail, std::unique_ptr<Sink> sink,
                                     AuditDelivery::Options options) {
  auto started = AuditDelivery::Start(loop, tail.Source(), std::move(sink), std::move(options));
  EXPECT_TRUE(started.ok()) << started.status();
  return *std::move(started);
}

std::vector<uint64_t> UpTo(uint64_t last) {
  std::vector<uint64_t> all;
  for (uint64_t seq = 1; seq <= last; ++seq) all.push_back(seq);
  return all;
}

TEST(AuditDelivery, DeliversAllInOrderInBatchesBoundedByRecordsAndBytes) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 100;
    Log log;
    AuditDelivery::Options options = Fast(folder);
    options.batch_interval = 1h;  // full batches do not wait
    auto delivery = Start(loop, tail, To(log, {30, 110}), options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 100; }));
    EXPECT_EQ(log.delivered, UpTo(100));
    for (const auto& [first, last] : log.tried) EXPECT_LE(last - first + 1, 10u);
    EXPECT_EQ(tail.given, 100u) << "nothing is read twice, though the sink takes fewer than were read";
    tail.last = 105;
    delivery->Wake();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 105; }));
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return ReadFile(folder / "sinks/siem.cursor") == tail.Cursor(105); }));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, ShowsItsLagAndItsLastErrorWhileTheSinkFails) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 7;
    Log log;
    log.answer = absl::UnavailableError("the disk is on fire");
    std::vector<SinkChange> told;
    AuditDelivery::Options options = Fast(folder);
    options.on_change = [&](SinkChange change, const SinkStatus&) { told.push_back(change); };
    auto delivery = Start(loop, tail, To(log), options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.tried.size() >= 3; }));
    SinkStatus status = delivery->status(Now());
    EXPECT_TRUE(status.failing);
    EXPECT_EQ(status.delivered_seq, 0u);
    EXPECT_EQ(status.lag_records, 7u);
    EXPECT_GE(status.lag, 1min);
    EXPECT_LT(status.lag, 2min);
    EXPECT_GE(status.failures, 2u);
    EXPECT_EQ(status.last_error, "the disk is on fire");
    EXPECT_FALSE(std::filesystem::exists(folder / "sinks/siem.cursor"));
    log.answer = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !delivery->status(Now()).failing; }));
    status = delivery->status(Now());
    EXPECT_EQ(status.lag_records, 0u);
    EXPECT_EQ(status.lag, 0s);
    EXPECT_EQ(told, (std::vector<SinkChange>{SinkChange::kFails, SinkChange::kDelivers}));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, ResumesAfterARestartWithoutLoss) {
  TempDir folder;
  Tail tail;
  Log log;
  for (int run = 0; run < 5; ++run) {
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      tail.last += 20;
      auto delivery = Start(loop, tail, To(log, {3, 1 << 20}), Fast(folder));
      // Stopped anywhere, also while a batch is on its way.
      const size_t until = log.delivered.size() + 7;
      EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() >= until; }));
      co_await delivery->Stop(Now());
    });
  }
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto delivery = Start(loop, tail, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).lag_records == 0; }));
    co_await delivery->Stop(Now());
  });
  const std::set<uint64_t> distinct(log.delivered.begin(), log.delivered.end());
  const std::vector<uint64_t> all = UpTo(100);
  EXPECT_EQ(distinct, std::set<uint64_t>(all.begin(), all.end()));
}

TEST(AuditDelivery, SendsLessAtOnceToASinkThatFindsABatchTooLarge) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 64;
    Log log;
    log.most = 5;
    auto delivery = Start(loop, tail, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 64; }));
    EXPECT_EQ(log.delivered, UpTo(64));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, CountsRecordsThatWereGoneBeforeTheyWereDelivered) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.first = 11;  // a new sink begins with what there is
    tail.last = 20;
    Log log;
    auto delivery = Start(loop, tail, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 10; }));
    EXPECT_EQ(delivery->status(Now()).missing, 0u);
    tail.first = 31;
    tail.last = 40;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 20; }));
    EXPECT_EQ(delivery->status(Now()).missing, 10u);
    EXPECT_THAT(delivery->status(Now()).last_error,
                HasSubstr("10 records from 21 on were not delivered: they are removed"));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, SkipsDamagedRecordsAndCountsThem) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.damaged = {3, 7, 8, 20};
    tail.last = 20;
    Log log;
    std::vector<SinkChange> told;
    AuditDelivery::Options options = Fast(folder);
    options.on_change = [&](SinkChange change, const SinkStatus&) { told.push_back(change); };
    auto delivery = Start(loop, tail, To(log), options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 16; }));
    EXPECT_EQ(delivery->status(Now()).missing, 3u);
    EXPECT_EQ(told, (std::vector<SinkChange>{SinkChange::kMissing, SinkChange::kMissing}));
    tail.last = 22;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).lag_records == 0; }));
    EXPECT_EQ(delivery->status(Now()).missing, 4u) << "the last one too, once there is one after it";
    std::vector<uint64_t> all = UpTo(22);
    std::erase_if(all, [&](uint64_t seq) { return tail.damaged.contains(seq); });
    EXPECT_EQ(log.delivered, all);
    co_await delivery->Stop(Now());
  });
}

// Someone removed the ledger's files, and the gateway began a new one in the same state folder.
TEST(AuditDelivery, StartsFromTheBeginningIfTheCursorIsOfAnotherLedger) {
  struct Case {
    const char* what;
    uint64_t last;   // of the ledger found at the second start
    uint64_t first;  // likewise
    char ledger;
    bool with_link;
    uint64_t new_ledgers;
    std::vector<uint64_t> delivered;
  };
  const std::vector<Case> cases = {
      {"the same", 12, 1, 'a', true, 0, {11, 12}},
      {"another that is longer", 12, 1, 'b', true, 1, UpTo(12)},
      {"another that is as long", 10, 1, 'b', true, 1, UpTo(10)},
      {"another that is shorter", 4, 1, 'b', true, 1, UpTo(4)},
      {"shorter, and the cursor without a link", 4, 1, 'b', false, 1, UpTo(4)},
      {"a cursor without a link", 12, 1, 'a', false, 0, {11, 12}},
      {"one whose record is gone", 14, 13, 'a', true, 0, {13, 14}},
  };
  for (const Case& c : cases) {
    TempDir folder;
    Tail tail;
    tail.last = 10;
    Log log;
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      auto delivery = Start(loop, tail, To(log), Fast(folder));
      EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).lag_records == 0; }));
      co_await delivery->Stop(Now());
    });
    if (!c.with_link) std::ofstream(folder / "sinks/siem.cursor") << "10\n";
    log.delivered.clear();
    tail.last = c.last;
    tail.first = c.first;
    tail.ledger = c.ledger;
    std::vector<SinkChange> told;
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      AuditDelivery::Options options = Fast(folder);
      options.on_change = [&](SinkChange change, const SinkStatus&) { told.push_back(change); };
      auto delivery = Start(loop, tail, To(log), options);
      EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() >= c.delivered.size(); }));
      EXPECT_EQ(delivery->status(Now()).new_ledgers, c.new_ledgers) << c.what;
      if (c.new_ledgers > 0) {
        EXPECT_THAT(delivery->status(Now()).last_error, HasSubstr("another ledger, at its record 10"));
      }
      co_await delivery->Stop(Now());
    });
    EXPECT_EQ(log.delivered, c.delivered) << c.what;
    EXPECT_EQ(std::count(told.begin(), told.end(), SinkChange::kNewLedger), c.new_ledgers) << c.what;
    EXPECT_EQ(ReadFile(folder / "sinks/siem.cursor"), tail.Cursor(c.last)) << c.what;
  }
}

TEST(AuditDelivery, DeliversWhatIsLeftWhenItStops) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 3;
    Log log;
    AuditDelivery::Options options = Fast(folder);
    options.batch_interval = 1h;
    auto delivery = Start(loop, tail, To(log, {4, 1 << 20}), options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).lag_records == 0; }));
    tail.last = 50;
    co_await delivery->Stop(Now() + 1min);
    EXPECT_EQ(log.delivered, UpTo(50));
    EXPECT_EQ(ReadFile(folder / "sinks/siem.cursor"), tail.Cursor(50));
  });
}

TEST(AuditDelivery, TriesASinkThatFailsOnceMoreWhenItStopsAndNotAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 3;
    Log log;
    log.answer = absl::UnavailableError("the disk is on fire");
    AuditDelivery::Options options = Fast(folder);
    options.min_backoff = options.max_backoff = 1h;
    auto delivery = Start(loop, tail, To(log), options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).failing; }));
    co_await delivery->Stop(Now() + 1h);
    EXPECT_EQ(log.tried.size(), 2u);
  });
}

// Takes nothing until it is closed or the time is up.
class HangingSink final : public Sink {
 public:
  HangingSink(net::Loop& loop, size_t& pending) : pause_(loop.watchdog), pending_(pending) {}
  std::string Describe() const override { return "hanging"; }
  BatchLimits limits() const override { return {}; }
  Task<absl::Status> Deliver(std::span<const Record>, conf::TimePoint until) override {
    ++pending_;
    co_await pause_.Until(std::min(until, Now() + 1h));
    --pending_;
    co_return absl::DeadlineExceededError("took nothing");
  }
  void Close() override { pause_.Cancel(); }

 private:
  net::Sleep pause_;
  size_t& pending_;
};

TEST(AuditDelivery, ASinkThatHangsDoesNotHoldUpTheEndBeyondItsTime) {
  for (const bool before : {true, false}) {  // under way before it is stopped, or only then
    RunOnLoop([before](TestLoop& loop) -> Task<void> {
      TempDir folder;
      Tail tail;
      size_t pending = 0;
      AuditDelivery::Options options = Fast(folder);
      options.batch_interval = 1h;
      auto delivery = Start(loop, tail, std::make_unique<HangingSink>(loop, pending), options);
      if (before) {
        tail.last = 3;
        delivery->Wake();
        EXPECT_TRUE(co_await Eventually(loop, [&] { return pending == 1; }));
      }
      tail.last = 5;
      const conf::TimePoint start = Now();
      co_await delivery->Stop(start + 100ms);
      EXPECT_GE(Now() - start, 100ms);
      EXPECT_EQ(pending, 0u);
    });
  }
}

TEST(AuditDelivery, ALedgerThatIsSlowToReadDoesNotHoldUpTheLoop) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 3;
    AuditDelivery::Source source = tail.Source();
    std::atomic<bool> reading = false;
    std::binary_semaphore go(0);
    source.read = [&, read = source.read](uint64_t after, size_t max) {
      reading = true;
      EXPECT_TRUE(go.try_acquire_for(5s)) << "the loop did not run meanwhile";
      go.release();
      return read(after, max);
    };
    Log log;
    auto delivery = *AuditDelivery::Start(loop, source, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return reading.load(); }));
    go.release();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 3; }));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, TriesAgainWhenTheLedgerCannotBeRead) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 3;
    tail.broken = true;
    Log log;
    auto delivery = Start(loop, tail, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).failures >= 2; }));
    EXPECT_EQ(delivery->status(Now()).last_error, "segment 3 is damaged");
    tail.broken = false;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return log.delivered.size() == 3; }));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, ContinuesAndReportsWhenTheCursorCannotBeSaved) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.last = 3;
    Log log;
    auto delivery = Start(loop, tail, To(log), Fast(folder));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).lag_records == 0; }));
    std::filesystem::create_directory(folder / "sinks/siem.cursor.new");
    tail.last = 6;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).failing; }));
    EXPECT_EQ(log.delivered, UpTo(6));
    EXPECT_THAT(delivery->status(Now()).last_error, HasSubstr("siem.cursor.new: Is a directory"));
    std::filesystem::remove(folder / "sinks/siem.cursor.new");
    tail.last = 9;
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return ReadFile(folder / "sinks/siem.cursor") == tail.Cursor(9); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !delivery->status(Now()).failing; }));
    co_await delivery->Stop(Now());
  });
}

TEST(AuditDelivery, RefusesAnInvalidCursorAndANameThatIsNotAFileName) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    Log log;
    std::filesystem::create_directories(folder / "sinks");
    const std::string link = tail.Link(12);
    for (const std::string& text :
         {std::string(), std::string("12"), std::string("x\n"), std::string("12\n13\n"), std::string("-1\n"),
          std::string("99999999999999999999\n"), std::string("12 \n"), std::string("12 0a\n"), "12 " + link,
          "12 " + link + "0\n", "12x" + link + "\n", "12 " + link + "\n\n"}) {
      std::ofstream(folder / "sinks/siem.cursor") << text;
      const auto started = AuditDelivery::Start(loop, tail.Source(), To(log), Fast(folder));
      EXPECT_EQ(started.status().code(), absl::StatusCode::kDataLoss) << text;
    }
    for (const char* name : {"", "../x", "a/b", ".hidden", "a b"}) {
      AuditDelivery::Options options = Fast(folder);
      options.name = name;
      const auto started = AuditDelivery::Start(loop, tail.Source(), To(log), options);
      EXPECT_EQ(started.status().code(), absl::StatusCode::kInvalidArgument) << name;
    }
    co_return;
  });
}

// With a real webhook behind it.

std::unique_ptr<Sink> To(net::Loop& loop, const HttpPeer& peer) {
  WebhookSink::Options options;
  options.url = peer.url("/in");
  options.timeout = 2s;
  return std::make_unique<WebhookSink>(loop, options);
}

std::string Bodies(const HttpPeer& peer, size_t from) {
  std::string bodies;
  for (size_t i = from; i < peer.seen.size(); ++i) bodies += peer.seen[i].body;
  return bodies;
}

TEST(AuditDelivery, OutlivesAWebhookThatIsDeadAnswers500AndIsSlow) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    TempDir folder;
    Tail tail;
    tail.bytes = 3;
    tail.last = 2;
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    auto delivery = Start(loop, tail, To(loop, peer), Fast(folder));
    const auto caught_up = [&] { return delivery->status(Now()).lag_records == 0; };
    EXPECT_TRUE(co_await Eventually(loop, caught_up));
    EXPECT_EQ(Bodies(peer, 0), "001\n002\n");

    for (const int status : {500, 0}) {
      peer.status = [status] { return status; };
      const uint64_t failures = delivery->status(Now()).failures;
      ++tail.last;
      const uint64_t more = status == 0 ? 1 : 3;  // each takes the time-out where nobody answers
      EXPECT_TRUE(
          co_await Eventually(loop, [&] { return delivery->status(Now()).failures >= failures + more; }));
      EXPECT_EQ(delivery->status(Now()).lag_records, 1u);
      EXPECT_THAT(delivery->status(Now()).last_error,
                  HasSubstr(status == 0 ? "no complete answer in time" : "answered 500"));
      peer.status = [] { return 200; };
      EXPECT_TRUE(co_await Eventually(loop, caught_up));
    }

    peer.Stop();
    tail.last = 5;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return delivery->status(Now()).failing; }));
    EXPECT_EQ(delivery->status(Now()).lag_records, 1u);
    const size_t seen = peer.seen.size();
    peer.Listen();
    EXPECT_TRUE(co_await Eventually(loop, caught_up));
    EXPECT_EQ(Bodies(peer, seen), "005\n");
    co_await delivery->Stop(Now());
    peer.Stop();
  });
}

}  // namespace
}  // namespace gateway
