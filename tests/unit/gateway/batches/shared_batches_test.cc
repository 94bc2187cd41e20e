// Batches that several gateways of one store and one bucket share: any of them answers, and continues one whose
// gateway is gone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/batches/message_batch.h"
#include "gateway/batches/shared_keys.h"
#include "gateway/store/kinds.h"
#include "tests/unit/gateway/batches/batch_world.h"

namespace gateway::batches {
namespace {

using tests::Eventually;
using tests::RunOnLoop;

const std::string kMaster(64, 'a');

// A store, a bucket, and the gateways that use them.
struct Cluster {
  explicit Cluster(tests::TestLoop& on) : loop(on), option(server.url()) {}

  World* Make(const std::string& gateway, const std::string& master = kMaster) {
    worlds.push_back(
        std::make_unique<World>(loop, option.text, &store,
                                Sharing{.gateway = gateway,
                                        .lives = [this](const std::string& id) { return !gone.contains(id); },
                                        .settle = {},
                                        .commit_age = std::chrono::milliseconds(100),
                                        .held_back_age = std::chrono::milliseconds(600)},
                                master));
    World* const world = worlds.back().get();
    world->answer = [](const LineCall&) {
      return LineAnswer{
          .status = 200,
          .request_id = "req_1",
          .body = R"({"said":"confidential","usage":{"prompt_tokens":2,"completion_tokens":1}})"};
    };
    return world;
  }
  void Kill(World& world) {
    world.Halt();
    gone.insert(world.sharing.gateway);
  }
  net::Task<void> End() {
    for (const auto& world : worlds) world->Halt();
    net::Sleep sleep(loop.watchdog);
    while (loop.tasks.running() > 1) co_await sleep.For(net::Watchdog::kTick);
    worlds.clear();
  }
  net::Task<bool> Committed(World& at, std::string id, uint64_t lines) {
    co_return co_await Eventually(loop, [&] { return at.Of(id).counts.completed >= lines; });
  }
  // The custom ids in the results of an ended batch, as that gateway reads them.
  static net::Task<std::multiset<std::string>> Results(World& at, std::string file) {
    std::multiset<std::string> ids;
    const absl::StatusOr<std::string> text = co_await at.Read(std::move(file));
    EXPECT_TRUE(text.ok()) << text.status();
    std::istringstream in(text.value_or(""));
    for (std::string line; std::getline(in, line);)
      ids.insert(nlohmann::json::parse(line)["custom_id"].get<std::string>());
    co_return ids;
  }

  tests::TestLoop& loop;
  tests::S3Server server;
  const BucketOption option;
  tests::MemoryStore store;
  std::set<std::string> gone;
  std::vector<std::unique_ptr<World>> worlds;
};

void ExpectOneEach(const std::multiset<std::string>& ids, size_t lines) {
  EXPECT_EQ(ids.size(), lines);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), lines);
}

TEST(SharedBatches, AnyGatewayAnswersForFilesAndBatches) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    co_await a->Open();
    co_await b->Open();
    const std::string id = co_await a->Begin(20);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b->batches->Find("demo", id).has_value(); }));
    EXPECT_EQ(b->batches->OfTenant("demo").size(), 1u);
    EXPECT_EQ(b->batches->Find("other", id), std::nullopt);
    EXPECT_TRUE(co_await b->Ends(id));
    EXPECT_TRUE(co_await a->Ends(id));
    EXPECT_TRUE(b->sent.empty()) << "the gateway that created it runs it";
    const Batch batch = b->Of(id);
    EXPECT_EQ(batch.state, BatchState::kCompleted);
    EXPECT_EQ(batch.counts, (LineCounts{.total = 20, .completed = 20}));
    EXPECT_EQ(batch.usage.output, 20u);
    EXPECT_TRUE(batch.output_parts.empty());
    for (World* const at : {a, b}) {
      EXPECT_TRUE((co_await at->files->CatchUp()).ok());
      ExpectOneEach(co_await Cluster::Results(*at, batch.output_file), 20);
      EXPECT_EQ(LinesIn(co_await at->Read(batch.input_file)), 20);
    }
    const std::map<std::string, std::string> objects = cluster.server.objects();
    for (const auto& [name, bytes] : objects) EXPECT_EQ(bytes.find("confidential"), std::string::npos);
    EXPECT_EQ(cluster.store.Count(store::kFile), 0u);
    // The other gateway deletes what the first has made.
    for (const std::string& file : {batch.input_file, batch.output_file}) {
      EXPECT_TRUE(
          std::holds_alternative<StoredFile>(co_await b->files->Remove("demo", file, "key_1", net::Now())));
    }
    EXPECT_TRUE(co_await Eventually(loop, [&] { return cluster.server.objects().empty(); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a->files->count() == 0; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a->FilesInFolder() == 0; }));
    co_await cluster.End();
  });
}

TEST(SharedBatches, AnotherGatewayContinuesWithTheLinesThatHaveNoCommittedResult) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    std::map<std::string, World*> living;
    for (const char* const name : {"a", "b", "c"}) {
      living[name] = cluster.Make(name);
      living[name]->takes = std::chrono::milliseconds(30);
      co_await living[name]->Open();
    }
    const std::string id = co_await living["a"]->Begin(90);
    std::string runner = "a";
    uint64_t committed = 0;
    for (int kills = 0; kills < 2; ++kills) {
      EXPECT_TRUE(co_await cluster.Committed(*living[runner], id, committed + 12));
      cluster.Kill(*living[runner]);
      living.erase(runner);
      const World& other = *living.begin()->second;
      committed = other.Of(id).counts.completed;
      EXPECT_TRUE(co_await Eventually(loop, [&] { return other.Of(id).runner != runner; }));
      runner = other.Of(id).runner;
    }
    World& last = *living.at(runner);
    EXPECT_TRUE(co_await last.Ends(id));
    const Batch batch = last.Of(id);
    EXPECT_EQ(batch.state, BatchState::kCompleted);
    EXPECT_EQ(batch.counts, (LineCounts{.total = 90, .completed = 90}));
    EXPECT_EQ(batch.usage.output, 90u);
    EXPECT_EQ(batch.epoch, 3u);
    EXPECT_EQ(last.batches->stats().taken_over, 1u);
    int events = 0;
    for (const auto& [key, object] : cluster.store.objects)
      events += object.body.find("batch.take_over") != std::string::npos ? 1 : 0;
    EXPECT_EQ(events, 2) << "the ledgers have it";
    EXPECT_TRUE((co_await last.files->CatchUp()).ok());
    ExpectOneEach(co_await Cluster::Results(last, batch.output_file), 90);
    EXPECT_LE(last.sent.size(), 90 - committed);
    for (const auto& [line, times] : last.sent) EXPECT_EQ(times, 1) << line;
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return cluster.store.Count(store::kSharedFileRemoval) == 0; }));
    EXPECT_EQ(cluster.server.objects().size(),
              1u + last.files->Find("demo", batch.output_file, net::Now())->parts.size());
    co_await cluster.End();
  });
}

TEST(SharedBatches, AFormerRunnerThatLivesOnCommitsNothing) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    a->takes = b->takes = std::chrono::milliseconds(60);
    co_await a->Open();
    co_await b->Open();
    const std::string id = co_await a->Begin(150);
    EXPECT_TRUE(co_await cluster.Committed(*b, id, 6));
    const Batch before = a->Of(id);
    cluster.gone.insert("a");  // it is not
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b->Of(id).runner == "b"; }));
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return a->batches->stats().in_flight == 0 && a->batches->stats().waiting == 0; }));
    const size_t sent = a->sent.size();
    const absl::Status late = co_await a->batches->stored().ChangeRun(id, before.epoch, [](Batch& batch) {
      batch.counts.completed = 150;
      return true;
    });
    EXPECT_TRUE(absl::IsPermissionDenied(late)) << late;
    // What it knew when it was taken over is refused by the version.
    EXPECT_TRUE(absl::IsAborted(
        (co_await cluster.store.Commit({{store::kSharedBatch, id, 1, EncodeBatch(before)}})).status()));
    EXPECT_TRUE(co_await b->Ends(id));
    const Batch batch = b->Of(id);
    EXPECT_EQ(batch.counts, (LineCounts{.total = 150, .completed = 150}));
    EXPECT_EQ(a->sent.size(), sent);
    EXPECT_TRUE((co_await b->files->CatchUp()).ok());
    ExpectOneEach(co_await Cluster::Results(*b, batch.output_file), 150);
    // Nothing that it has uploaded stays.
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return cluster.store.Count(store::kSharedFileRemoval) == 0; }));
    EXPECT_EQ(cluster.server.objects().size(),
              1u + b->files->Find("demo", batch.output_file, net::Now())->parts.size());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a->FilesInFolder() <= 1; }))
        << "its copy of the input";
    co_await cluster.End();
  });
}

TEST(SharedBatches, ABatchOfMessagesIsContinuedLikewise) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    a->takes = b->takes = std::chrono::milliseconds(30);
    co_await a->Open();
    co_await b->Open();
    std::string text;
    for (int i = 1; i <= 40; ++i) {
      text += fmt::format(
          R"({{"custom_id":"{}","method":"POST","url":"{}","body":{{"model":"a","messages":[]}}}})"
          "\n",
          i, kMessagesUrl);
    }
    const std::string input = std::get<StoredFile>(co_await a->Upload(text)).id;
    const auto created = co_await a->batches->Create(
        {.principal = a->principal, .input_file = input, .endpoint = std::string(kMessagesUrl), .lines = 40},
        net::Now());
    const std::string id = std::get<Batch>(created).id;
    EXPECT_TRUE(co_await cluster.Committed(*a, id, 6));
    cluster.Kill(*a);
    EXPECT_TRUE(co_await b->Ends(id));
    EXPECT_TRUE((co_await b->files->CatchUp()).ok());
    EXPECT_EQ(b->Of(id).counts, (LineCounts{.total = 40, .completed = 40}));
    EXPECT_EQ(b->Of(id).usage.output, 40u);
    ExpectOneEach(co_await Cluster::Results(*b, b->Of(id).output_file), 40);
    EXPECT_LT(b->sent.size(), 40u);
    co_await cluster.End();
  });
}

TEST(SharedBatches, AGatewayThatComesBackGoesOnWhereItsDiskEnds) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    a->takes = std::chrono::milliseconds(20);
    co_await a->Open();
    const std::string id = co_await a->Begin(40);
    EXPECT_TRUE(co_await cluster.Committed(*a, id, 6));
    co_await a->Close();
    co_await a->Open();
    EXPECT_TRUE(co_await a->Ends(id));
    EXPECT_EQ(a->Of(id).epoch, 1u);
    EXPECT_TRUE((co_await a->files->CatchUp()).ok());
    ExpectOneEach(co_await Cluster::Results(*a, a->Of(id).output_file), 40);
    int repeated = 0;
    for (const auto& [line, times] : a->sent) repeated += times - 1;
    EXPECT_LE(repeated, 3) << "more than what was under way";
    co_await cluster.End();
  });
}

TEST(SharedBatches, WithoutItsDiskAGatewayGoesOnFromTheBucket) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    a->takes = std::chrono::milliseconds(20);
    co_await a->Open();
    const std::string id = co_await a->Begin(40);
    EXPECT_TRUE(co_await cluster.Committed(*a, id, 6));
    const uint64_t committed = a->Of(id).counts.completed;
    co_await a->Close();
    std::vector<std::filesystem::path> names;
    for (const auto& entry : std::filesystem::directory_iterator(a->dir / "files"))
      names.push_back(entry.path());
    for (const std::filesystem::path& name : names) {
      name.extension() == ".run" ? std::filesystem::resize_file(name, 10)
                                 : static_cast<void>(std::filesystem::remove(name));
    }
    a->sent.clear();
    co_await a->Open();
    EXPECT_TRUE(co_await a->Ends(id));
    EXPECT_TRUE((co_await a->files->CatchUp()).ok());
    ExpectOneEach(co_await Cluster::Results(*a, a->Of(id).output_file), 40);
    EXPECT_LE(a->sent.size(), 40 - committed);
    co_await cluster.End();
  });
}

TEST(SharedBatches, ABatchIsCancelledAtAnyGatewayAlsoIfItsOwnIsGone) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    a->takes = b->takes = std::chrono::milliseconds(20);
    co_await a->Open();
    co_await b->Open();
    const std::string first = co_await a->Begin(200);
    const std::string second = co_await a->Begin(200);
    EXPECT_TRUE(co_await cluster.Committed(*b, first, 3));
    EXPECT_TRUE(
        std::holds_alternative<Batch>(co_await b->batches->Cancel("demo", first, "key_1", net::Now())));
    EXPECT_TRUE(co_await b->Ends(first));
    EXPECT_EQ(b->Of(first).runner, "a");
    cluster.Kill(*a);
    EXPECT_TRUE(
        std::holds_alternative<Batch>(co_await b->batches->Cancel("demo", second, "key_1", net::Now())));
    EXPECT_TRUE(co_await b->Ends(second));
    EXPECT_TRUE((co_await b->files->CatchUp()).ok());
    for (const std::string& id : {first, second}) {
      const Batch batch = b->Of(id);
      EXPECT_EQ(batch.state, BatchState::kCancelled);
      EXPECT_EQ(batch.counts.completed + batch.counts.failed, 200u);
      std::multiset<std::string> ids = co_await Cluster::Results(*b, batch.error_file);
      EXPECT_EQ(ids.size(), batch.counts.failed);
      if (!batch.output_file.empty()) ids.merge(co_await Cluster::Results(*b, batch.output_file));
      ExpectOneEach(ids, 200);
    }
    co_await cluster.End();
  });
}

TEST(SharedBatches, WithoutTheBucketABatchIsPausedAndSaysWhy) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    a->takes = std::chrono::milliseconds(20);
    co_await a->Open();
    co_await b->Open();
    const std::string id = co_await a->Begin(300);
    EXPECT_TRUE(co_await cluster.Committed(*b, id, 3));
    cluster.server.FailWith(503);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !b->Of(id).paused.empty(); }));
    EXPECT_EQ(a->batches->stats().paused, 1u);
    EXPECT_EQ(ShowBatch(b->Of(id))["tidegate"]["paused"], b->Of(id).paused);
    EXPECT_EQ(ShowMessageBatch(b->Of(id))["tidegate"]["paused"], b->Of(id).paused);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a->batches->stats().in_flight == 0; }));
    const size_t sent = a->sent.size();
    EXPECT_LT(sent, 300u);
    EXPECT_FALSE(
        co_await Eventually(loop, [&] { return a->sent.size() > sent; }, std::chrono::milliseconds(500)));
    cluster.server.Recover();
    EXPECT_TRUE(co_await a->Ends(id));
    EXPECT_EQ(a->Of(id).paused, "");
    EXPECT_EQ(a->Of(id).counts.completed, 300u);
    for (const auto& [line, times] : a->sent) EXPECT_EQ(times, 1) << line;
    co_await cluster.End();
  });
}

TEST(SharedBatches, AGatewayThatStopsLeavesItsBatchesAndNothingIsRepeated) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    a->takes = b->takes = std::chrono::milliseconds(20);
    co_await a->Open();
    co_await b->Open();
    const std::string id = co_await a->Begin(60);
    EXPECT_TRUE(co_await cluster.Committed(*b, id, 6));
    a->batches->Drain();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !a->batches->leaving(); }));
    a->Halt();
    EXPECT_TRUE(co_await b->Ends(id));
    EXPECT_TRUE((co_await b->files->CatchUp()).ok());
    ExpectOneEach(co_await Cluster::Results(*b, b->Of(id).output_file), 60);
    EXPECT_EQ(a->sent.size() + b->sent.size(), 60u);
    co_await cluster.End();
  });
}

TEST(SharedBatches, WhatWasBegunBeforeTheBucketStaysWithItsGateway) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World before(loop, "", &cluster.store, Sharing{.gateway = "x"}, kMaster);
    before.takes = std::chrono::milliseconds(1);
    co_await before.Open();
    const std::string id = co_await before.Begin(5);
    EXPECT_TRUE(co_await before.Ends(id));
    EXPECT_FALSE(before.Of(id).shared);
    EXPECT_EQ(cluster.store.Count(store::kSharedBatch), 0u);
    EXPECT_EQ(cluster.store.Count(store::kSharedFile), 0u);
    EXPECT_EQ(before.ResultsIn(before.Of(id).output_file).size(), 5u);
    co_await before.Close();
  });
}

TEST(SharedKeys, AllGatewaysHaveTheSameAndErasingOneErasesItForAll) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b");
    co_await a->Open();
    co_await b->Open();
    const auto of_a = co_await a->files->KeyFor("demo", true);
    EXPECT_TRUE((co_await b->files->CatchUpShared()).ok());
    const auto of_b = co_await b->files->KeyFor("demo", true);
    EXPECT_EQ((*of_a)->id(), (*of_b)->id());
    EXPECT_EQ((*of_a)->bytes(), (*of_b)->bytes());
    const std::string id = co_await a->Begin(5);
    EXPECT_TRUE(co_await a->Ends(id));
    EXPECT_TRUE((co_await b->files->CatchUpShared()).ok());
    const auto erased = co_await b->files->EraseShared("demo", "ada", "asked for");
    EXPECT_EQ(erased.value().size(), 1u);
    EXPECT_TRUE((co_await a->files->CatchUpShared()).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition((co_await a->Read(a->Of(id).input_file)).status()));
    EXPECT_NE((co_await a->files->KeyFor("demo", true)).value()->id(), (*of_a)->id());
    EXPECT_EQ((co_await b->files->EraseShared("dem", "ada", "")).value().size(), 0u);
    co_await cluster.End();
  });
}

TEST(SharedKeys, AGatewayWithAnotherMasterKeyReadsNothingAndDestroysNothing) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Cluster cluster(loop);
    World* const a = cluster.Make("a");
    World* const b = cluster.Make("b", std::string(64, 'b'));
    a->takes = std::chrono::hours(1);
    co_await a->Open();
    co_await b->Open();
    const std::string id = co_await a->Begin(5);
    cluster.Kill(*a);
    EXPECT_TRUE(absl::IsUnavailable((co_await b->files->KeyFor("demo", true)).status()));
    EXPECT_TRUE(absl::IsUnavailable(b->files->KeyOf(b->Of(id).sealed_by).status()));
    EXPECT_FALSE(
        co_await Eventually(loop, [&] { return b->Of(id).runner != "a"; }, std::chrono::milliseconds(1500)));
    EXPECT_FALSE(HasEnded(b->Of(id).state));
    co_await cluster.End();
  });
}

TEST(SharedKeys, AreWrappedAgainUnderANewMasterKey) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    const tests::TempDir dir;
    tests::MemoryStore store;
    const auto keys_of = [&](const std::string& name, std::vector<std::string> masters) {
      return ledger::ContentKeys::Open(
                 {.path = dir / name, .master_path = dir / (name + ".key"), .masters = std::move(masters)})
          .value();
    };
    const std::string after(64, 'c');
    const auto before = keys_of("1", {kMaster});
    const auto both = keys_of("2", {after, kMaster});
    const auto only_after = keys_of("3", {after});
    std::string id;
    for (const ledger::ContentKeys* const masters : {before.get(), both.get(), only_after.get()}) {
      SharedKeys keys(loop, store, *masters);
      EXPECT_TRUE((co_await keys.Start()).ok());
      const auto key = co_await keys.For("demo");
      EXPECT_TRUE(key.ok()) << key.status();
      if (id.empty()) id = (*key)->id();
      EXPECT_EQ((*key)->id(), id);
      keys.Stop();
    }
    net::Sleep sleep(loop.watchdog);
    while (loop.tasks.running() > 1) co_await sleep.For(net::Watchdog::kTick);
  });
}

}  // namespace
}  // namespace gateway::batches
