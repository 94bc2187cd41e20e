// Files whose bytes are in a bucket that comes and goes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "gateway/batches/files.h"
#include "gateway/batches/kept_file.h"
#include "gateway/batches/place_reader.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/support/s3_server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/batches/stored_files.h"

namespace gateway::batches {
namespace {

using tests::Eventually;
using tests::RunOnLoop;

// That of a tests::S3Server.
config::FilesBucket BucketAt(const std::string& url) {
  const absl::StatusOr<net::Url> parsed = net::ParseUrl(url);
  EXPECT_TRUE(parsed.ok());
  config::FilesBucket bucket{
      .endpoint = {.scheme = "http",
                   .host = parsed->host,
                   .port = static_cast<uint16_t>(std::stoi(parsed->port)),
                   .path = {}},
      .bucket = tests::S3Server::kBucket,
      .prefix = "p/q",
      .region = tests::S3Server::kRegion,
      .access_key = conf::Secret("env:A", tests::S3Server::kAccessKey),
      .secret_key = conf::Secret("env:S", tests::S3Server::kSecretKey),
      .ca = {},
  };
  return bucket;
}

// Files over a store and a folder that outlive them.
struct Keeper {
  Keeper(tests::TestLoop& on, std::optional<config::FilesBucket> bucket) : loop(on) {
    options.s3 = std::move(bucket);
  }

  net::Task<void> Open() {
    files = std::make_unique<Files>(loop, store, keys.get(), dir / "files",
                                    [this] { return std::optional(options); });
    EXPECT_TRUE((co_await files->Start()).ok());
    files->Begin();
  }
  net::Task<void> Close() {
    files->Stop();
    net::Sleep sleep(loop.watchdog);
    while (loop.tasks.running() > 1) co_await sleep.For(net::Watchdog::kTick);
    files.reset();
  }
  net::Task<Result<StoredFile>> Upload(std::string text) {
    const auto place = std::get<Files::Place>(co_await files->Hold("demo", 1000));
    absl::StatusOr<KeptFile> upload = KeptFile::Create(place.path, place.key);
    EXPECT_TRUE(upload.ok() && upload->Append(text).ok()) << upload.status();
    co_return co_await files->Keep({.id = place.id, .tenant = "demo", .bytes = text.size()}, net::Now());
  }
  net::Task<absl::StatusOr<std::string>> Read(std::string id) { return ReadStored(*files, std::move(id)); }
  size_t FilesInFolder() const { return EntriesOf(dir / "files"); }

  tests::TestLoop& loop;
  tests::TempDir dir;
  tests::MemoryStore store;
  config::Files options;
  std::unique_ptr<ledger::ContentKeys> keys =
      ledger::ContentKeys::Open({.path = dir / "keys.json", .master_path = dir / "content.key"}).value();
  std::unique_ptr<Files> files;
};

TEST(FilesInABucket, ACopyIsMadeWhereLinesAreReadAndGoesAgain) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    const tests::S3Server server;
    Keeper keeper(loop, BucketAt(server.url()));
    co_await keeper.Open();
    const std::string id = std::get<StoredFile>(co_await keeper.Upload("some text")).id;
    EXPECT_EQ(keeper.FilesInFolder(), 0u);
    const absl::StatusOr<std::string> copy = co_await keeper.files->CopyHere(id);
    EXPECT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(keeper.FilesInFolder(), 1u);
    EXPECT_EQ(tests::ReadFile(*copy), server.objects().at("p/q/" + id));
    const conf::TimePoint later = net::Now() + std::chrono::minutes(2);
    co_await keeper.files->Sweep({id}, later);
    EXPECT_EQ(keeper.FilesInFolder(), 1u) << "it is used";
    co_await keeper.files->Sweep({}, later);
    EXPECT_EQ(keeper.FilesInFolder(), 0u);
    EXPECT_EQ((co_await keeper.Read(id)).value_or(""), "some text");
    EXPECT_TRUE(absl::IsNotFound((co_await keeper.files->CopyHere("file-none")).status()));
    co_await keeper.Close();
  });
}

TEST(FilesInABucket, AnUploadIsRefusedWhileItDoesNotAnswerAndLeavesNothing) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    Keeper keeper(loop, BucketAt(server.url()));
    co_await keeper.Open();
    server.FailWith(503);
    const Result<StoredFile> refused = co_await keeper.Upload("text");
    EXPECT_EQ(std::get<api::ApiError>(refused).code, "store_unavailable");
    EXPECT_EQ(keeper.store.Count(store::kFile), 0u);
    EXPECT_EQ(keeper.FilesInFolder(), 0u);
    server.Recover();
    const Result<StoredFile> kept = co_await keeper.Upload("text");
    EXPECT_EQ((co_await keeper.Read(std::get<StoredFile>(kept).id)).value_or(""), "text");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return keeper.store.Count(store::kFileRemoval) == 0; }));
    EXPECT_EQ(server.objects().size(), 1u);
    co_await keeper.Close();
  });
}

TEST(FilesInABucket, AnObjectWhoseFileTheStoreRefusedIsRemoved) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    Keeper keeper(loop, BucketAt(server.url()));
    co_await keeper.Open();
    keeper.store.refuses_kind = store::kFile;
    const Result<StoredFile> refused = co_await keeper.Upload("text");
    EXPECT_EQ(std::get<api::ApiError>(refused).code, "store_unavailable");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.objects().empty(); }));
    EXPECT_EQ(server.log().front().substr(0, 3), "PUT");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return keeper.store.Count(store::kFileRemoval) == 0; }));
    co_await keeper.Close();
  });
}

TEST(FilesInABucket, ADeletedFileGoesFromThereAsSoonAsItAnswersAlsoAfterARestart) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    Keeper keeper(loop, BucketAt(server.url()));
    co_await keeper.Open();
    const std::string id = std::get<StoredFile>(co_await keeper.Upload("text")).id;
    server.FailWith(0);
    EXPECT_TRUE(
        std::holds_alternative<StoredFile>(co_await keeper.files->Remove("demo", id, "key_1", net::Now())));
    EXPECT_EQ(keeper.files->Find("demo", id, net::Now()), nullptr);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return keeper.files->removals() == 1; }));
    co_await keeper.Close();
    EXPECT_EQ(server.objects().size(), 1u);
    server.Recover();
    co_await keeper.Open();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.objects().empty(); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return keeper.files->removals() == 0; }));
    co_await keeper.Close();
  });
}

TEST(FilesInABucket, FilesFromBeforeStayInTheFolderAndAreRead) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    const tests::S3Server server;
    Keeper keeper(loop, std::nullopt);
    co_await keeper.Open();
    const std::string before = std::get<StoredFile>(co_await keeper.Upload("before")).id;
    co_await keeper.Close();
    keeper.options.s3 = BucketAt(server.url());
    co_await keeper.Open();
    const std::string after = std::get<StoredFile>(co_await keeper.Upload("after")).id;
    EXPECT_EQ((co_await keeper.Read(before)).value_or(""), "before");
    EXPECT_EQ((co_await keeper.Read(after)).value_or(""), "after");
    EXPECT_EQ(server.objects().size(), 1u);
    keeper.options.s3.reset();
    EXPECT_TRUE(absl::IsUnavailable((co_await keeper.Read(after)).status())) << "no bucket is configured";
    co_await keeper.Close();
  });
}

TEST(FilesInABucket, WhatWasChangedThereIsNotRead) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    Keeper keeper(loop, BucketAt(server.url()));
    co_await keeper.Open();
    const std::string id = std::get<StoredFile>(co_await keeper.Upload("some text")).id;
    server.Change("p/q/" + id, 20);
    EXPECT_TRUE(absl::IsDataLoss((co_await keeper.Read(id)).status()));
    server.Remove("p/q/" + id);
    EXPECT_TRUE(absl::IsNotFound((co_await keeper.Read(id)).status()));
    co_await keeper.Close();
  });
}

// A commit that was on its way when the gateway died comes too late.
TEST(BucketRemovals, WhatIsToBeRemovedBecomesNoFile) {
  RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::S3Server server;
    const tests::TempDir dir;
    tests::MemoryStore store;
    Bucket bucket(loop, [&] { return config::Files{.s3 = BucketAt(server.url())}; });
    BucketRemovals first(loop, store, bucket);
    EXPECT_TRUE((co_await first.Start()).ok());
    EXPECT_TRUE((co_await first.Hold("file-1", "p/file-1")).ok());
    const std::string path = dir / "bytes";
    std::ofstream(path) << "text";
    EXPECT_TRUE((co_await bucket.Put(path, "p/file-1")).ok());
    const store::Write late = first.Forgetting("file-1");
    server.FailWith(503);
    BucketRemovals second(loop, store, bucket);
    EXPECT_TRUE((co_await second.Start()).ok());
    second.Begin();
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return store.objects.at({store::kFileRemoval, "file-1"}).version != late.replaces; }));
    EXPECT_TRUE(absl::IsAborted((co_await store.Commit({late})).status()));
    EXPECT_TRUE(absl::IsUnavailable(co_await second.Hold("file-1", "p/file-1")));
    server.Recover();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.objects().empty(); }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return second.count() == 0; }));
    first.Stop();
    second.Stop();
    net::Sleep sleep(loop.watchdog);
    while (loop.tasks.running() > 1) co_await sleep.For(net::Watchdog::kTick);
  });
}

}  // namespace
}  // namespace gateway::batches
