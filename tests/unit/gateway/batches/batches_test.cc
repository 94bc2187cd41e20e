#include "gateway/batches/batches.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "gateway/batches/place_reader.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/shard/shared.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/support/s3_server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/batches/batch_world.h"

namespace gateway::batches {
namespace {

using tests::Eventually;
using tests::RunOnLoop;

TEST(Batches, EachLineIsSentOnceAndHasOneResult) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    const std::string id = co_await world.Begin(20);
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kCompleted);
    EXPECT_EQ(batch.counts, (LineCounts{.total = 20, .completed = 20, .failed = 0}));
    EXPECT_EQ(batch.error_file, "");
    EXPECT_EQ(world.ResultsIn(batch.output_file).size(), 20u);
    EXPECT_NE(world.files->Find("demo", batch.output_file, net::Now()), nullptr);
    EXPECT_EQ(world.files->Find("other", batch.output_file, net::Now()), nullptr);
    EXPECT_EQ(world.batches->Find("other", id), std::nullopt);
    EXPECT_LE(world.most_at_once, 3);
    for (const auto& [line, times] : world.sent) EXPECT_EQ(times, 1) << line;
    co_await world.Close();
  });
}

TEST(Batches, AModelWithoutRoomDelaysOnlyItsOwnLines) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    bool room = false;
    world.answer = [&](const LineCall& call) {
      if (!room && call.body.find("\"b\"") != std::string::npos)
        return LineAnswer{.status = 503, .body = "{}"};
      return LineAnswer{.status = 200, .body = "{}"};
    };
    co_await world.Open();
    const std::string full = co_await world.Begin(4, "b");
    const std::string free = co_await world.Begin(6, "a");
    EXPECT_TRUE(co_await world.Ends(free));
    EXPECT_EQ(world.Of(full).state, BatchState::kInProgress);
    const std::string second = co_await world.Begin(1, "b");
    EXPECT_EQ(co_await world.Begin(1), "too_many_batches");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.batches->stats().put_off > 0; }));
    room = true;
    EXPECT_TRUE(co_await world.Ends(second));
    EXPECT_TRUE(co_await world.Ends(full));
    EXPECT_EQ(world.Of(full).counts.completed, 4u);
    co_await world.Close();
  });
}

TEST(Batches, AfterAStopItContinuesWhereItsResultsEnd) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    const std::string id = co_await world.Begin(30);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.Of(id).counts.completed >= 6; }));
    co_await world.Close();
    co_await world.Open();
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kCompleted);
    const std::multiset<std::string> results = world.ResultsIn(batch.output_file);
    EXPECT_EQ(results.size(), 30u);
    EXPECT_EQ(std::set<std::string>(results.begin(), results.end()).size(), 30u);
    int repeated = 0;
    for (const auto& [line, times] : world.sent) repeated += times - 1;
    EXPECT_LE(repeated, 3) << "more than what was under way";
    co_await world.Close();
  });
}

// The one batch in the store, as it was before its input was read.
net::Task<void> MakeUnread(World& world) {
  const auto stored = co_await world.store.List(store::kBatch);
  Batch batch = DecodeBatch(stored.value().objects.at(0).body).value();
  batch.state = BatchState::kValidating;
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Replace(stored->objects[0], EncodeBatch(batch)));
  EXPECT_TRUE((co_await world.store.Commit(std::move(writes))).ok());
}

TEST(Batches, OneThatIsNotReadYetWaitsForItsTenant) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    world.takes = std::chrono::hours(1);
    co_await world.Open();
    const std::string id = co_await world.Begin(5);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.now_running > 0; }));
    co_await world.Close();
    co_await MakeUnread(world);
    const PrincipalRef caller = std::exchange(world.principal, nullptr);
    world.takes = std::chrono::milliseconds(1);
    co_await world.Open();
    net::Sleep sleep(loop.watchdog);
    for (int turn = 0; turn < 5; ++turn) co_await sleep.For(net::Watchdog::kTick);
    EXPECT_EQ(world.Of(id).state, BatchState::kValidating);
    world.principal = caller;
    EXPECT_TRUE(co_await world.Ends(id));
    EXPECT_EQ(world.Of(id).state, BatchState::kCompleted);
    EXPECT_EQ(world.Of(id).counts.completed, 5u);
    co_await world.Close();
  });
}

TEST(Batches, OneThatIsNotReadYetAndWithoutItsTenantCanBeCancelled) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    world.takes = std::chrono::hours(1);
    co_await world.Open();
    const std::string id = co_await world.Begin(5);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.now_running > 0; }));
    co_await world.Close();
    co_await MakeUnread(world);
    world.principal = nullptr;
    co_await world.Open();
    (void)co_await world.batches->Cancel("demo", id, "key_1", net::Now());
    EXPECT_TRUE(co_await world.Ends(id));
    EXPECT_EQ(world.Of(id).state, BatchState::kCancelled);
    co_await world.Close();
  });
}

TEST(Batches, ACancelledOneNamesTheLinesThatWereNotSent) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    const std::string id = co_await world.Begin(30);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.Of(id).counts.completed >= 3; }));
    const auto cancelled = co_await world.batches->Cancel("demo", id, "key_1", net::Now());
    EXPECT_EQ(std::get<Batch>(cancelled).state, BatchState::kCancelling);
    const auto other = co_await world.batches->Cancel("other", id, "key_2", net::Now());
    EXPECT_EQ(std::get<api::ApiError>(other).code, "not_found");
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kCancelled);
    EXPECT_EQ(batch.counts.completed + batch.counts.failed, 30u);
    EXPECT_EQ(world.ResultsIn(batch.error_file).size(), batch.counts.failed);
    EXPECT_EQ(world.ResultsIn(batch.output_file).size(), batch.counts.completed);
    co_await world.Close();
  });
}

TEST(Batches, AfterItsWindowItEndsWithWhatWasDone) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    const std::string id = co_await world.Begin(30, "a", net::Now() - std::chrono::hours(24));
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kExpired);
    EXPECT_EQ(batch.counts, (LineCounts{.total = 30, .completed = 0, .failed = 30, .unsent = 30}));
    EXPECT_EQ(world.ResultsIn(batch.error_file).size(), 30u);
    EXPECT_EQ(batch.output_file, "");
    co_await world.Close();
  });
}

TEST(Batches, AKeyThatStopsWorkingEndsTheBatch) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    world.answer = [&](const LineCall&) {
      if (world.sent.size() < 5) return LineAnswer{.status = 200, .body = "{}"};
      return LineAnswer{.status = 401, .body = R"({"error":{"code":"key_revoked"}})"};
    };
    co_await world.Open();
    const std::string id = co_await world.Begin(20);
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kFailed);
    EXPECT_EQ(batch.problems.size(), 1u);
    EXPECT_EQ(batch.problems.front().code, "key_revoked");
    EXPECT_EQ(batch.counts.completed + batch.counts.failed, 20u);
    co_await world.Close();
  });
}

TEST(Batches, EachChangeIsAnEventForTheLedger) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    EXPECT_TRUE(co_await world.Ends(co_await world.Begin(1)));
    std::multiset<std::string> actions;
    for (const auto& [key, object] : world.store.objects) {
      if (key.first == store::kLedgerEvent)
        actions.insert(nlohmann::json::parse(object.body)["action"].get<std::string>());
    }
    EXPECT_THAT(actions, testing::UnorderedElementsAre("file.create", "batch.create", "batch.end"));
    co_await world.Close();
  });
}

TEST(Batches, WhatLiesOnTheDiskIsSealedAndIsGoneWithTheKeyOfItsTenant) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    world.answer = [](const LineCall&) {
      return LineAnswer{.status = 200, .request_id = "req_1", .body = R"({"said":"confidential"})"};
    };
    const std::string id = co_await world.Begin(20);
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(world.ResultsIn(batch.output_file).size(), 20u);
    for (const std::string& file : {batch.input_file, batch.output_file}) {
      const std::string bytes = tests::ReadFile(world.files->PathOf(file));
      EXPECT_GT(bytes.size(), 100u);
      EXPECT_EQ(bytes.find("custom_id"), std::string::npos);
      EXPECT_EQ(bytes.find("confidential"), std::string::npos);
    }
    // Another that is not done yet when the key is destroyed, and goes on in another process.
    world.takes = std::chrono::hours(1);
    const std::string open = co_await world.Begin(20);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.now_running > 0; }));
    co_await world.Close();
    EXPECT_TRUE(world.keys->Erase("demo", "ada", "asked for", net::Now()).ok());
    co_await world.Open();
    EXPECT_TRUE(co_await world.Ends(open));
    EXPECT_EQ(world.Of(open).problems.at(0).code, "content_erased");
    EXPECT_TRUE(absl::IsFailedPrecondition(world.files->KeyOfFile(batch.output_file).status()));
    co_await world.Close();
  });
}

TEST(Files, ATenantHasSoManyFilesAndBytes) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    std::vector<std::string> held;
    for (int i = 0; i < 8; ++i)
      held.push_back(std::get<Files::Place>(co_await world.files->Hold("demo", 10)).id);
    EXPECT_EQ(std::get<api::ApiError>(co_await world.files->Hold("demo", 10)).code, "file_storage_limit");
    EXPECT_TRUE(std::holds_alternative<Files::Place>(co_await world.files->Hold("other", UINT64_MAX)));
    for (const std::string& id : held) co_await world.files->Abandon(id);
    EXPECT_TRUE(std::holds_alternative<Files::Place>(co_await world.files->Hold("demo", 10)));
    co_await world.Close();
  });
}

TEST(Files, OldFilesAndRemainsOfUploadsAreRemoved) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    World world(loop);
    co_await world.Open();
    const std::string id = co_await world.Begin(1);
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    std::ofstream(world.files->PathOf("file-left.part")) << "x";
    std::ofstream(world.files->PathOf("file-unknown")) << "x";
    const conf::TimePoint later = net::Now() + std::chrono::days(31);
    co_await world.files->Sweep({batch.input_file}, later);
    EXPECT_EQ(world.store.Count(store::kFile), 1u);
    EXPECT_TRUE(std::filesystem::exists(world.files->PathOf(batch.input_file)));
    EXPECT_FALSE(std::filesystem::exists(world.files->PathOf(batch.output_file)));
    EXPECT_FALSE(std::filesystem::exists(world.files->PathOf("file-left.part")));
    EXPECT_FALSE(std::filesystem::exists(world.files->PathOf("file-unknown")));
    co_await world.batches->stored().Sweep(later);
    EXPECT_EQ(world.batches->Find("demo", id), std::nullopt);
    co_await world.Close();
  });
}

TEST(BatchesInABucket, ABatchReadsItsInputThereAndItsResultsGoThere) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    const tests::S3Server server;
    const BucketOption option(server.url());
    World world(loop, option.text);
    co_await world.Open();
    const std::string id = co_await world.Begin(20);
    EXPECT_TRUE(co_await world.Ends(id));
    const Batch batch = world.Of(id);
    EXPECT_EQ(batch.state, BatchState::kCompleted);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.FilesInFolder() == 0; }));
    EXPECT_EQ(LinesIn(co_await world.Read(batch.input_file)), 20);
    EXPECT_EQ(LinesIn(co_await world.Read(batch.output_file)), 20);
    const auto objects = server.objects();
    EXPECT_EQ(objects.size(), 2u);
    for (const std::string& file : {batch.input_file, batch.output_file}) {
      const auto object = objects.find("p/q/" + file);
      EXPECT_TRUE(object != objects.end()) << file;
      if (object == objects.end()) continue;
      EXPECT_EQ(object->second.find("custom_id"), std::string::npos) << "it is sealed";
    }
    EXPECT_EQ(world.store.Count(store::kFileRemoval), 0u);
    co_await world.Close();
  });
}

TEST(BatchesInABucket, ABatchThatEndsWhileItDoesNotAnswerEndsLaterAndRepeatsNothing) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    const BucketOption option(server.url());
    World world(loop, option.text);
    co_await world.Open();
    const std::string id = co_await world.Begin(10);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.sent.size() >= 3; }));
    server.FailWith(503);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.Of(id).counts.completed == 10; }));
    EXPECT_EQ(world.Of(id).state, BatchState::kInProgress);
    co_await world.Close();
    co_await world.Open();
    server.Recover();
    EXPECT_TRUE(co_await world.Ends(id));
    EXPECT_EQ(world.Of(id).state, BatchState::kCompleted);
    EXPECT_EQ(LinesIn(co_await world.Read(world.Of(id).output_file)), 10);
    for (const auto& [line, times] : world.sent) EXPECT_EQ(times, 1) << line;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return world.store.Count(store::kFileRemoval) == 0; }));
    EXPECT_EQ(server.objects().size(), 2u);
    co_await world.Close();
  });
}

}  // namespace
}  // namespace gateway::batches
