// What every backend of the store promises (gateway/store/store.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "gateway/store/follower.h"
#include "tests/support/loop_test.h"
#include "tests/unit/gateway/store/backends.h"

namespace {

namespace store = gateway::store;
namespace net = gateway::net;
using store::Change;
using store::ChangeList;
using store::Committed;
using store::Listing;
using store::Object;
using store::Store;
using store::Write;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::Eventually;
using tests::StoreTuning;
using tests::TestLoop;

struct Backend {
  const char* name;
  std::unique_ptr<tests::StoreBackend> (*make)();
};

class StoreTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string missing = backend_->missing(); !missing.empty()) GTEST_SKIP() << missing;
  }
  std::unique_ptr<Store> Open(net::Loop& loop, StoreTuning tuning = {}) {
    auto opened = backend_->Open(loop, tuning);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  const std::unique_ptr<tests::StoreBackend> backend_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Backends, StoreTest,
                         testing::Values(Backend{"Sqlite",
                                                 []() -> std::unique_ptr<tests::StoreBackend> {
                                                   return std::make_unique<tests::SqliteBackend>();
                                                 }},
                                         Backend{"Postgres",
                                                 []() -> std::unique_ptr<tests::StoreBackend> {
                                                   return std::make_unique<tests::PostgresBackend>();
                                                 }}),
                         [](const testing::TestParamInfo<Backend>& backend) { return backend.param.name; });

net::Task<Committed> Must(Store& store, std::vector<Write> writes) {
  const absl::StatusOr<Committed> committed = co_await store.Commit(std::move(writes));
  EXPECT_TRUE(committed.ok()) << committed.status();
  co_return committed.value_or(Committed{});
}

net::Task<Object> MustGet(Store& store, std::string kind, std::string id) {
  const absl::StatusOr<std::optional<Object>> found = co_await store.Get(std::move(kind), std::move(id));
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found.ok() && found->has_value());
  co_return found.ok() && *found ? **found : Object{};
}

net::Task<std::string> BodyOf(Store& store, std::string kind, std::string id) {
  const absl::StatusOr<std::optional<Object>> found = co_await store.Get(std::move(kind), std::move(id));
  EXPECT_TRUE(found.ok()) << found.status();
  co_return !found.ok() || !*found ? "-" : (*found)->body;
}

TEST_P(StoreTest, AnObjectIsCreatedReadReplacedAndRemoved) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    EXPECT_EQ(co_await BodyOf(*store, "key", "a"), "-");

    std::vector<Write> create = {Write::Create("key", "a", "one")};
    const Committed created = co_await Must(*store, create);
    const Object one = co_await MustGet(*store, "key", "a");
    EXPECT_EQ(one, (Object{"key", "a", created.first, "one"}));

    std::vector<Write> replace = {Write::Replace(one, "two")};
    co_await Must(*store, replace);
    const Object two = co_await MustGet(*store, "key", "a");
    EXPECT_EQ(two.body, "two");
    EXPECT_GT(two.version, one.version);

    std::vector<Write> remove = {Write::Remove(two)};
    co_await Must(*store, remove);
    EXPECT_EQ(co_await BodyOf(*store, "key", "a"), "-");
  });
}

TEST_P(StoreTest, AWriteThatNamesAnotherVersionIsRefusedAndSaysSo) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> create = {Write::Create("key", "a", "one")};
    co_await Must(*store, create);
    const Object one = co_await MustGet(*store, "key", "a");
    std::vector<Write> replace = {Write::Replace(one, "two")};
    co_await Must(*store, replace);

    const std::vector<Write> refused[] = {
        {Write::Create("key", "a", "x")},  // exists
        {Write::Replace(one, "x")},        // was replaced
        {Write::Remove(one)},
        {Write{"key", "b", one.version, "x"}},  // does not exist
    };
    for (std::vector<Write> writes : refused) {
      const std::string id = writes[0].id;
      const auto result = co_await store->Commit(writes);
      EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("key \"" + id + "\""));
    }
    EXPECT_EQ(co_await BodyOf(*store, "key", "a"), "two");
    EXPECT_EQ(co_await BodyOf(*store, "key", "b"), "-");
  });
}

TEST_P(StoreTest, AVersionIsNeverUsedTwiceEvenWhenAnObjectIsMadeAgain) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> create = {Write::Create("key", "a", "one")};
    co_await Must(*store, create);
    const Object first = co_await MustGet(*store, "key", "a");
    std::vector<Write> remove = {Write::Remove(first)};
    co_await Must(*store, remove);
    co_await Must(*store, create);
    std::vector<Write> stale = {Write::Replace(first, "x")};
    EXPECT_TRUE(absl::IsAborted((co_await store->Commit(stale)).status()));
  });
}

TEST_P(StoreTest, OfATransactionAllWritesAreKeptOrNone) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> both = {Write::Create("key", "a", "1"), Write::Create("key_event", "a", "2")};
    const Committed committed = co_await Must(*store, both);
    EXPECT_EQ(committed.last, committed.first + 1);
    EXPECT_EQ((co_await MustGet(*store, "key_event", "a")).version, committed.VersionOf(1));

    const Object a = co_await MustGet(*store, "key", "a");
    std::vector<Write> mixed = {Write::Replace(a, "changed"), Write::Create("key", "b", "new"),
                                Write::Create("key_event", "a", "exists")};
    EXPECT_TRUE(absl::IsAborted((co_await store->Commit(mixed)).status()));
    EXPECT_EQ(co_await MustGet(*store, "key", "a"), a);
    EXPECT_EQ(co_await BodyOf(*store, "key", "b"), "-");
    const auto list = co_await store->List("key");
    EXPECT_EQ(list->number, committed.last) << "a refused transaction takes no number";
  });
}

TEST_P(StoreTest, RefusesWritesThatMakeNoSense) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const std::vector<Write> refused[] = {
        {},
        {Write::Create("", "a", "x")},
        {Write::Create("key", "", "x")},
        {Write::Create("key", std::string("a\0b", 3), "x")},
        {Write::Create("key", std::string(store::kMaxNameBytes + 1, 'x'), "x")},
        {Write::Create("key", "a", std::string(store::kMaxBodyBytes + 1, 'x'))},
        {Write::Create("key", "a", "x"), Write::Create("key", "a", "y")},
        {Write{"key", "a", 0, std::nullopt}},
    };
    for (std::vector<Write> writes : refused) {
      const auto result = co_await store->Commit(writes);
      EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    }
    std::vector<Write> largest = {Write::Create("key", "a", std::string(store::kMaxBodyBytes, 'x'))};
    co_await Must(*store, largest);
  });
}

TEST_P(StoreTest, BodiesAndNamesAreKeptByteByByte) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const std::string body("{\"x\":\"\0\xff' \xe2\x82\xac\n\"}", 15);
    const std::string id = "it's 100% \"odd\" \xe2\x82\xac;--";
    std::vector<Write> create = {Write::Create("key", id, body), Write::Create("key", "empty", "")};
    co_await Must(*store, create);
    EXPECT_EQ(co_await BodyOf(*store, "key", id), body);
    EXPECT_EQ(co_await BodyOf(*store, "key", "empty"), "");
    const auto changes = co_await store->Changes("key", 0);
    EXPECT_EQ(changes->changes.at(0).id, id);
    EXPECT_EQ(changes->changes.at(1).body, "") << "empty is not removed";
  });
}

TEST_P(StoreTest, AListIsOfOneKindByIdAndOfOneMoment) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> writes = {Write::Create("key", "b", "2"), Write::Create("cordon", "n", "3"),
                                 Write::Create("key", "a", "1")};
    const Committed committed = co_await Must(*store, writes);
    const auto keys = co_await store->List("key");
    EXPECT_EQ(keys->number, committed.last);
    EXPECT_THAT(keys->objects, ElementsAre(Object{"key", "a", committed.VersionOf(2), "1"},
                                           Object{"key", "b", committed.VersionOf(0), "2"}));
    EXPECT_THAT((co_await store->List("none"))->objects, IsEmpty());
  });
}

TEST_P(StoreTest, ALargeKindIsListedInPagesById) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const std::unique_ptr<Store> store = Open(loop);
    std::vector<Write> writes;
    for (const char* id : {"c", "a", "b/2", "b"}) writes.push_back(Write::Create("usage", id, id));
    writes.push_back(Write::Create("other", "bb", "x"));
    const Committed committed = co_await Must(*store, std::move(writes));
    std::vector<std::string> ids;
    std::string after;
    while (true) {
      const absl::StatusOr<Listing> page = co_await store->ListPage("usage", after, 2);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) co_return;
      EXPECT_EQ(page->number, committed.last);
      for (const Object& object : page->objects) ids.push_back(object.id);
      if (page->objects.size() < 2) break;
      after = page->objects.back().id;
    }
    EXPECT_THAT(ids, ElementsAre("a", "b", "b/2", "c"));
  });
}

TEST_P(StoreTest, ChangesTellTheLastStateOfEachObjectInTheOrderOfTheChanges) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> three = {Write::Create("key", "a", "1"), Write::Create("key", "b", "1"),
                                Write::Create("key", "c", "1")};
    const Committed begun = co_await Must(*store, three);
    std::vector<Write> b = {Write::Replace(co_await MustGet(*store, "key", "b"), "2")};
    co_await Must(*store, b);
    std::vector<Write> a = {Write::Remove(co_await MustGet(*store, "key", "a"))};
    co_await Must(*store, a);
    std::vector<Write> other = {Write::Create("cordon", "n", "x")};
    const Committed last = co_await Must(*store, other);

    const auto since = co_await store->Changes("key", begun.last);
    EXPECT_EQ(since->number, last.last) << "of other kinds, too";
    EXPECT_FALSE(since->more);
    EXPECT_THAT(since->changes,
                ElementsAre(Change{begun.last + 1, "b", "2"}, Change{begun.last + 2, "a", std::nullopt}));
    EXPECT_THAT((co_await store->Changes("key", last.last))->changes, IsEmpty());
    EXPECT_EQ((co_await store->Changes("key", 0))->changes.size(), 3u);
    EXPECT_TRUE(absl::IsOutOfRange((co_await store->Changes("key", last.last + 1)).status()))
        << "a number that the store never gave";
  });
}

TEST_P(StoreTest, ChangesComeInPages) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop, {.page = 3});
    std::vector<Write> writes;
    for (int i = 0; i < 10; ++i)
      writes.push_back(Write::Create(i % 2 == 0 ? "key" : "cordon", std::to_string(i), "x"));
    co_await Must(*store, writes);
    std::vector<std::string> ids;
    uint64_t after = 0;
    int pages = 0;
    while (true) {
      const auto page = co_await store->Changes("key", after);
      for (const Change& change : page->changes) ids.push_back(change.id);
      after = page->number;
      ++pages;
      if (!page->more) break;
    }
    EXPECT_THAT(ids, ElementsAre("0", "2", "4", "6", "8"));
    EXPECT_GE(pages, 3);
    EXPECT_EQ(after, 10u);
  });
}

TEST_P(StoreTest, AFollowerBehindAForgottenRemovalHasToListAgain) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop, {.kept_removals = 5});
    std::vector<Write> begin = {Write::Create("key", "gone", "x"), Write::Create("key", "kept", "x")};
    const Committed begun = co_await Must(*store, begin);
    std::vector<Write> remove = {Write::Remove(co_await MustGet(*store, "key", "gone"))};
    const Committed removed = co_await Must(*store, remove);
    EXPECT_EQ((co_await store->Changes("key", begun.last))->changes.size(), 1u);
    for (int i = 0; i < 6; ++i) {
      const std::string id = std::to_string(i);
      std::vector<Write> create = {Write::Create("key", id, "x")};
      co_await Must(*store, create);
      std::vector<Write> away = {Write::Remove(co_await MustGet(*store, "key", id))};
      co_await Must(*store, away);
    }
    EXPECT_TRUE(absl::IsOutOfRange((co_await store->Changes("key", begun.last)).status()));
    EXPECT_TRUE(absl::IsOutOfRange((co_await store->Changes("key", 0)).status()));
    const auto all = co_await store->List("key");
    EXPECT_EQ(all->objects.size(), 1u);
    EXPECT_TRUE((co_await store->Changes("key", all->number)).ok());
    EXPECT_GT(all->number, removed.last);
  });
}

TEST_P(StoreTest, WhatWasCommittedIsThereWhenTheStoreIsOpenedAgain) {
  Committed committed;
  for (int round = 0; round < 2; ++round) {
    tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
      const auto store = Open(loop);
      if (round == 0) {
        std::vector<Write> create = {Write::Create("key", "a", "one")};
        committed = co_await Must(*store, create);
      } else {
        const Object found = co_await MustGet(*store, "key", "a");
        EXPECT_EQ(found, (Object{"key", "a", committed.first, "one"}));
        std::vector<Write> more = {Write::Create("key", "b", "two")};
        EXPECT_EQ((co_await Must(*store, more)).first, committed.last + 1) << "the sequence goes on";
      }
    });
  }
}

TEST_P(StoreTest, OfTwoThatReplaceTheSameVersionOneIsRefused) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto one = Open(loop);
    const auto two = Open(loop);
    std::vector<Write> create = {Write::Create("cordon", "n", "0")};
    co_await Must(*one, create);
    int done = 0;
    int ended = 0;
    const auto add = [&](Store& store) -> net::Task<void> {
      int left = 40;
      while (left > 0) {
        const Object now = co_await MustGet(store, "cordon", "n");
        std::vector<Write> next = {Write::Replace(now, std::to_string(std::stoi(now.body) + 1))};
        const auto committed = co_await store.Commit(next);
        EXPECT_TRUE(committed.ok() || absl::IsAborted(committed.status())) << committed.status();
        if (!committed.ok() && !absl::IsAborted(committed.status())) break;
        left -= committed.ok();
        done += committed.ok();
      }
      ++ended;
    };
    loop.tasks.Spawn(add(*one));
    loop.tasks.Spawn(add(*two));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 2; }, std::chrono::seconds(60)));
    EXPECT_EQ(done, 80);
    EXPECT_EQ(co_await BodyOf(*one, "cordon", "n"), "80");
  });
}

TEST_P(StoreTest, CommitsThatWaitTogetherAreEachJudgedByThemselves) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    std::vector<Write> create = {Write::Create("cordon", "n", "0")};
    co_await Must(*store, create);
    const Object first = co_await MustGet(*store, "cordon", "n");
    constexpr int kEach = 40;
    std::map<std::string, int> done;  // by what it is
    std::map<std::string, std::string> refused;
    std::vector<uint64_t> numbers;
    int ended = 0;
    const auto commit = [&](const char* what, std::vector<Write> writes) -> net::Task<void> {
      const size_t count = writes.size();
      const auto committed = co_await store->Commit(std::move(writes));
      done[what] += committed.ok();
      if (!committed.ok()) refused[what] = std::string(committed.status().message());
      for (size_t i = 0; committed.ok() && i < count; ++i) numbers.push_back(committed->VersionOf(i));
      ++ended;
    };
    for (int i = 0; i < kEach; ++i) {
      const std::string id = std::to_string(i);
      loop.tasks.Spawn(commit("new", {Write::Create("key", id, id), Write::Create("key", id + "'", id)}));
      loop.tasks.Spawn(commit("same", {Write::Create("grant", id, id), Write::Replace(first, id)}));
      loop.tasks.Spawn(commit("again", {Write::Create("event", "one", id)}));
    }
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 3 * kEach; }, std::chrono::seconds(60)));
    EXPECT_EQ(done["new"], kEach) << refused["new"];
    EXPECT_EQ(done["same"], 1);
    EXPECT_EQ(done["again"], 1);
    std::ranges::sort(numbers);
    EXPECT_TRUE(std::ranges::adjacent_find(numbers) == numbers.end()) << "no number is used twice";
    EXPECT_EQ((co_await store->List("key"))->objects.size(), 2u * kEach);
    const auto grants = co_await store->List("grant");
    EXPECT_EQ(grants->objects.size(), 1u) << "a commit that is refused leaves nothing";
    EXPECT_EQ(co_await BodyOf(*store, "cordon", "n"), grants->objects.at(0).body);
  });
}

class Recorder final : public Store::Listener {
 public:
  void OnChange(uint64_t number) override { numbers.push_back(number); }
  std::vector<uint64_t> numbers;
};

TEST_P(StoreTest, AListenerHearsItsOwnAndOthersChangesAndNoneOnceRemoved) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto one = Open(loop);
    const auto two = Open(loop);
    Recorder heard;
    one->Add(heard);
    for (Store* store : {one.get(), two.get()}) {
      std::vector<Write> create = {Write::Create("key", store == one.get() ? "a" : "b", "x")};
      const Committed committed = co_await Must(*store, create);
      EXPECT_TRUE(co_await Eventually(
          loop, [&] { return !heard.numbers.empty() && heard.numbers.back() == committed.last; }));
    }
    one->Remove(heard);
    const size_t before = heard.numbers.size();
    std::vector<Write> create = {Write::Create("key", "c", "x")};
    co_await Must(*one, create);
    co_await BodyOf(*one, "key", "c");
    EXPECT_EQ(heard.numbers.size(), before);
  });
}

// A copy as a follower keeps it.
struct Mirror {
  std::map<std::string, std::string> bodies;
  int loads = 0;

  store::Follower::Copy copy() {
    return {.replace =
                [this](const std::vector<Object>& all) {
                  ++loads;
                  bodies.clear();
                  for (const Object& object : all) bodies[object.id] = object.body;
                },
            .apply =
                [this](const std::vector<Change>& changes) {
                  for (const Change& change : changes) {
                    if (change.body) {
                      bodies[change.id] = *change.body;
                    } else {
                      bodies.erase(change.id);
                    }
                  }
                }};
  }
};

TEST_P(StoreTest, AFollowersCopyIsTheStoreWhateverIsWrittenMeanwhile) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const StoreTuning tuning{.kept_removals = 20, .page = 4};
    store::Store* const mine = &loop.Keep(Open(loop, tuning));  // a read may still run when the body ends
    const auto others = Open(loop, tuning);
    std::vector<Write> begin = {Write::Create("key", "before", "x")};
    co_await Must(*others, begin);
    Mirror mirror;
    auto& follower = loop.Keep(std::make_unique<store::Follower>(loop, *mine, "key", mirror.copy()));
    EXPECT_TRUE((co_await follower.Start()).ok());
    EXPECT_EQ(mirror.bodies.size(), 1u);
    for (int i = 0; i < 100; ++i) {
      const std::string id = std::to_string(i * 7 % 10);
      const std::string kind = i % 5 == 0 ? "cordon" : "key";
      const auto now = co_await others->Get(kind, id);
      std::vector<Write> write = {!*now        ? Write::Create(kind, id, std::to_string(i))
                                  : i % 3 == 0 ? Write::Remove(**now)
                                               : Write::Replace(**now, std::to_string(i))};
      co_await Must(i % 2 == 0 ? *mine : *others, write);
    }
    EXPECT_TRUE((co_await follower.CatchUp()).ok());
    std::map<std::string, std::string> truth;
    const auto all = co_await others->List("key");
    for (const Object& object : all->objects) truth[object.id] = object.body;
    EXPECT_EQ(mirror.bodies, truth);
    EXPECT_EQ(follower.number(), all->number);

    // And without being asked.
    std::vector<Write> last = {Write::Create("key", "last", "x")};
    co_await Must(*others, last);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return mirror.bodies.contains("last"); }));
    follower.Stop();
  });
}

TEST_P(StoreTest, AFollowerSeesATransactionWholeThoughItTakesSeveralPages) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    store::Store* const store =
        &loop.Keep(Open(loop, {.page = 2}));  // a read may still run when the body ends
    int applied = 0;
    size_t changes = 0;
    store::Follower::Copy copy;
    copy.replace = [](const std::vector<Object>&) {};
    copy.apply = [&](const std::vector<Change>& seen) {
      ++applied;
      changes += seen.size();
    };
    auto& follower = loop.Keep(std::make_unique<store::Follower>(loop, *store, "key", copy));
    EXPECT_TRUE((co_await follower.Start()).ok());
    std::vector<Write> writes;
    for (int i = 0; i < 9; ++i) writes.push_back(Write::Create("key", std::to_string(i), "x"));
    co_await Must(*store, writes);
    EXPECT_TRUE((co_await follower.CatchUp()).ok());
    EXPECT_EQ(applied, 1);
    EXPECT_EQ(changes, 9u);
    follower.Stop();
  });
}

}  // namespace
