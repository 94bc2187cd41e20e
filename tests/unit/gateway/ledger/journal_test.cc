#include "gateway/ledger/journal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

class JournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<ShardJournal> Make(uint32_t slots = 8, uint64_t ring = 64 << 10) {
    absl::StatusOr<std::unique_ptr<ShardJournal>> journal = ShardJournal::Create(
        path_, {.shard = 3, .slots = slots, .ring_bytes = ring, .first_n = 10}, &healthy_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  TempDir dir_;
  const std::string path_ = dir_.Sub("journal-3");
  std::atomic<bool> healthy_{true};
};

TEST_F(JournalTest, AfterACrashAtAnyMomentTokensAndTheirCostMatch) {
  for (int round = 0; round < 100; ++round) {
    int begun[2];
    ASSERT_EQ(pipe(begun), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto journal = Make();
      std::optional<Ticket> running = journal->Open(SomeOpen("req"));
      if (write(begun[1], "x", 1) != 1) _exit(1);
      for (uint64_t i = 1;; ++i)
        running->Progress({.input = i, .output = 2 * i, .cost_micro_usd = static_cast<int64_t>(5 * i)});
    }
    char byte;
    ASSERT_EQ(read(begun[0], &byte, 1), 1);
    while (ReadJournal(path_)->slots.at(0).counts.input == 0) {
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(begun[0]);
    close(begun[1]);
    absl::StatusOr<JournalImage> image = ReadJournal(path_);
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_EQ(image->slots.size(), 1u);
    const Counts& counts = image->slots[0].counts;
    EXPECT_GT(counts.input, 0u);
    EXPECT_EQ(counts.output, 2 * counts.input);
    EXPECT_EQ(counts.cost_micro_usd, static_cast<int64_t>(5 * counts.input));
  }
}

TEST_F(JournalTest, ConcurrentReadsAreConsistent) {
  auto journal = Make();
  std::optional<Ticket> running = journal->Open(SomeOpen("req"));
  std::atomic<bool> stop{false};
  std::thread tells([&] {
    for (uint64_t i = 1; !stop; ++i)
      running->Progress({.input = i, .output = 2 * i, .cost_micro_usd = static_cast<int64_t>(5 * i)});
  });
  for (int i = 0; i < 10'000; ++i) {
    journal->ForEachOpen([&](uint64_t, const CloseRecord& so_far) {
      EXPECT_EQ(so_far.counts.output, 2 * so_far.counts.input);
      EXPECT_EQ(so_far.counts.cost_micro_usd, static_cast<int64_t>(5 * so_far.counts.input));
    });
  }
  stop = true;
  tells.join();
}

TEST_F(JournalTest, RecordsAreReadFromTheFileWithoutTheProcess) {
  auto journal = Make();
  std::optional<Ticket> done = journal->Open(SomeOpen("req_a"));
  std::optional<Ticket> running = journal->Open(SomeOpen("req_b"));
  ASSERT_TRUE(done && running);
  running->Progress(
      {.input = 7, .output = 3, .cost_micro_usd = 5, .attempts = 2, .source = TokenSource::kCounted});
  running->SetReplica("http://gpu-1");
  done->Close(SomeClose());

  absl::StatusOr<JournalImage> image = ReadJournal(path_);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->shard, 3u);
  EXPECT_EQ(image->last_n, 12u);
  ASSERT_EQ(image->frames.size(), 3u);
  EXPECT_EQ(image->frames[0].n, 10u);
  ASSERT_EQ(image->slots.size(), 1u);
  EXPECT_EQ(image->slots[0].open_n, 11u);
  EXPECT_EQ(image->slots[0].counts.output, 3u);
  EXPECT_EQ(image->slots[0].counts.source, TokenSource::kCounted);
  EXPECT_EQ(image->slots[0].replica, "http://gpu-1");
}

TEST_F(JournalTest, RefusesWorkWhenItsSlotsAreTakenAndTakesItAgainAfterAClose) {
  auto journal = Make(2);
  std::optional<Ticket> a = journal->Open(SomeOpen("a"));
  std::optional<Ticket> b = journal->Open(SomeOpen("b"));
  EXPECT_FALSE(journal->Open(SomeOpen("c")));
  EXPECT_EQ(journal->refused_opens(), 1u);
  a->Close(SomeClose());
  EXPECT_TRUE(journal->Open(SomeOpen("d")));
}

TEST_F(JournalTest, RefusesWorkWhileTheLedgerIsUnhealthy) {
  auto journal = Make();
  healthy_ = false;
  EXPECT_FALSE(journal->Open(SomeOpen("a")));
}

TEST_F(JournalTest, ACloseHasRoomEvenInAFullRing) {
  auto journal = Make(64, 128 << 10);
  std::vector<Ticket> open;
  const std::string longest(1000, 'x');
  while (std::optional<Ticket> ticket = journal->Open(SomeOpen(longest))) open.push_back(std::move(*ticket));
  EXPECT_FALSE(open.empty());
  while (journal->Refuse(SomeOpen(longest), SomeClose(EndReason::kRefused))) {
  }
  ASSERT_FALSE(open[0].Content({.text = std::string(10'000, 'y')}));
  EXPECT_EQ(journal->dropped_records(), 2u);
  CloseRecord close = SomeClose();
  close.served_model = close.replica = close.limit = close.error = longest;
  const size_t count = open.size();
  for (Ticket& ticket : open) ticket.Close(close);
  EXPECT_LE(journal->pending_bytes(), uint64_t{128} << 10);
  uint64_t cursor = 0;
  size_t closes = 0;
  journal->Drain(&cursor, [&](uint64_t, std::string_view payload) {
    CloseRecord record;
    uint64_t open_n;
    closes += DecodeClose(payload, &record, &open_n) ? 1 : 0;
    return true;
  });
  EXPECT_EQ(closes, count);
}

TEST_F(JournalTest, KeepsItsOrderOverManyLapsOfTheRing) {
  auto journal = Make();
  uint64_t cursor = 0;
  uint64_t expected = 10;
  for (int i = 0; i < 2000; ++i) {
    std::optional<Ticket> ticket = journal->Open(SomeOpen("req_" + std::to_string(i)));
    ASSERT_TRUE(ticket);
    ticket->Close(SomeClose());
    if (i % 7 != 0) continue;
    journal->Drain(&cursor, [&](uint64_t n, std::string_view) {
      EXPECT_EQ(n, expected++);
      return true;
    });
    journal->Release(cursor);
    absl::StatusOr<JournalImage> image = ReadJournal(path_);
    ASSERT_TRUE(image.ok());
    EXPECT_TRUE(image->frames.empty());
    EXPECT_EQ(image->unreadable_bytes, 0u);
  }
  EXPECT_GT(cursor, uint64_t{4} * (64 << 10));
}

// KiB of the file's pages in this process's memory.
size_t ResidentKib(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  size_t sum = 0;
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path)) {
      of_file = true;
    } else if (of_file && line.starts_with("Rss:")) {
      sum += std::stoul(line.substr(4));
      of_file = false;
    }
  }
  return sum;
}

TEST_F(JournalTest, ReturnsTheMemoryOfALapAndKeepsItsRecords) {
  constexpr uint64_t kRing = 8 << 20;
  auto journal = Make(64, kRing);
  EXPECT_LT(ResidentKib(path_), 1200u);
  uint64_t cursor = 0;
  int records = 0;
  const auto fill = [&](uint64_t bytes) {
    for (const uint64_t end = journal->committed() + bytes; journal->committed() < end;) {
      journal->Open(SomeOpen("req"))->Close(SomeClose());
      if (journal->pending_bytes() < kRing / 2) continue;
      journal->Drain(&cursor, [&](uint64_t, std::string_view) { return ++records > 0; });
      journal->Release(cursor);
    }
  };
  fill(kRing + (1 << 20));
  EXPECT_GT(ResidentKib(path_), 7000u);
  const uint64_t kept = journal->pending_bytes();
  ASSERT_GT(kept, 0u);
  journal->ReturnMemory();
  EXPECT_LT(ResidentKib(path_), 1200u);
  EXPECT_EQ(journal->pending_bytes(), kept);
  fill(kRing);
  journal->Drain(&cursor, [&](uint64_t, std::string_view) { return ++records > 0; });
  absl::StatusOr<JournalImage> image = ReadJournal(path_);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->unreadable_bytes, 0u);
  EXPECT_EQ(image->last_n, 9 + static_cast<uint64_t>(records));
}

TEST_F(JournalTest, ATicketThatIsDroppedClosesItsRequestAsInterruptedWithItsCounts) {
  auto journal = Make();
  {
    std::optional<Ticket> ticket = journal->Open(SomeOpen("a"));
    ticket->Progress({.output = 9});
    ticket->SetReplica("r1");
  }
  EXPECT_EQ(journal->open_requests(), 0u);
  uint64_t cursor = 0;
  int closes = 0;
  journal->Drain(&cursor, [&](uint64_t, std::string_view payload) {
    CloseRecord record;
    uint64_t open_n;
    if (DecodeClose(payload, &record, &open_n)) {
      ++closes;
      EXPECT_EQ(record.reason, EndReason::kInterrupted);
      EXPECT_EQ(record.counts.output, 9u);
      EXPECT_EQ(record.replica, "r1");
    }
    return true;
  });
  EXPECT_EQ(closes, 1);
}

TEST_F(JournalTest, AFrameThatAPowerLossDestroyedEndsTheReadingAndIsCounted) {
  auto journal = Make();
  for (int i = 0; i < 5; ++i) journal->Open(SomeOpen("req_" + std::to_string(i)))->Close(SomeClose());
  std::string bytes = Slurp(path_);
  const size_t at = bytes.find("req_3");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'R';
  Spill(path_, bytes);
  absl::StatusOr<JournalImage> image = ReadJournal(path_);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->frames.size(), 6u);
  EXPECT_GT(image->unreadable_bytes, 0u);
}

TEST_F(JournalTest, RefusesAFileThatIsCutOrForeign) {
  Make();
  const std::string whole = Slurp(path_);
  for (const size_t size : {size_t{0}, size_t{10}, size_t{4095}, size_t{4096}, whole.size() - 1}) {
    Spill(path_, whole.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(ReadJournal(path_).status())) << size;
  }
  Spill(path_, std::string(whole.size(), 'x'));
  EXPECT_TRUE(absl::IsDataLoss(ReadJournal(path_).status()));
}

TEST_F(JournalTest, ARingTooSmallForItsSlotsIsRefusedWithTheNeededSize) {
  const auto journal = ShardJournal::Create(path_, {.slots = 4096, .ring_bytes = 64 << 10}, &healthy_);
  ASSERT_FALSE(journal.ok());
  EXPECT_NE(journal.status().message().find("at least"), absl::string_view::npos);
}

}  // namespace
}  // namespace gateway::ledger
