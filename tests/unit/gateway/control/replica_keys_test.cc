#include "gateway/control/launching/replica_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/support/temp_dir.h"

namespace gateway::control {
namespace {

using tests::TestLoop;

TEST(ReplicaKeys, AreTheSameAfterARestartAndAnotherForEachReplicaAndStore) {
  tests::RunOnLoop([](TestLoop&) -> net::Task<void> {
    tests::MemoryStore store;
    const auto before = co_await ReplicaKeys::Load(store);
    const auto after = co_await ReplicaKeys::Load(store);
    tests::MemoryStore another;
    const auto other = co_await ReplicaKeys::Load(another);
    if (!before.ok() || !after.ok() || !other.ok()) {
      ADD_FAILURE();
      co_return;
    }
    EXPECT_EQ(before->Of("r-a-1").Reveal(), after->Of("r-a-1").Reveal());
    EXPECT_NE(before->Of("r-a-1").Reveal(), before->Of("r-a-2").Reveal());
    EXPECT_NE(before->Of("r-a-1").Reveal(), other->Of("r-a-1").Reveal());
    EXPECT_EQ(fmt::format("{}", before->Of("r-a-1")), "***");
  });
}

TEST(ReplicaKeys, ACopyOfTheSecretSurvivesTheStoreAndIsPrivate) {
  tests::RunOnLoop([](TestLoop&) -> net::Task<void> {
    const tests::TempDir folder;
    const std::string path = folder / "replica.secret";
    EXPECT_TRUE(absl::IsNotFound(ReplicaKeys::ReadCopy(path).status()));
    tests::MemoryStore store;
    const auto keys = co_await ReplicaKeys::Load(store);
    EXPECT_TRUE(keys->Keep(path).ok());
    EXPECT_TRUE(keys->Keep(path).ok());
    struct stat kept{};
    EXPECT_EQ(stat(path.c_str(), &kept), 0);
    EXPECT_EQ(kept.st_mode & 07777, 0600u);
    auto copy = ReplicaKeys::ReadCopy(path);
    EXPECT_TRUE(copy.ok()) << copy.status();
    tests::MemoryStore rebuilt;
    std::vector<store::Write> writes{store::Write::Create("secret", "replica_keys", copy.value_or(""))};
    EXPECT_TRUE((co_await rebuilt.Commit(std::move(writes))).ok());
    const auto after = co_await ReplicaKeys::Load(rebuilt);
    EXPECT_EQ(after->Of("r-a-1").Reveal(), keys->Of("r-a-1").Reveal());
    std::ofstream(path) << "spoilt";
    EXPECT_TRUE(absl::IsDataLoss(ReplicaKeys::ReadCopy(path).status()));
    EXPECT_TRUE(keys->Keep(path).ok()) << "a spoilt copy is made anew";
    EXPECT_TRUE(ReplicaKeys::ReadCopy(path).ok());
  });
}

TEST(ReplicaKeys, ATrialHidesTheKeyAmongOthersAndStaysTheSame) {
  tests::RunOnLoop([](TestLoop&) -> net::Task<void> {
    tests::MemoryStore store;
    const auto keys = co_await ReplicaKeys::Load(store);
    std::set<size_t> places;
    for (int i = 0; i < 100; ++i) {
      const std::string replica = fmt::format("r-{}", i);
      const ReplicaKeys::Trial trial = keys->TrialOf(replica, 7);
      EXPECT_EQ(trial.keys.size(), 8u);
      EXPECT_EQ(trial.keys[trial.right].Reveal(), keys->Of(replica).Reveal());
      std::set<std::string> different;
      for (const conf::Secret& key : trial.keys) {
        different.insert(std::string(key.Reveal()));
        EXPECT_EQ(key.Reveal().size(), keys->Of(replica).Reveal().size()) << "they look alike";
      }
      EXPECT_EQ(different.size(), 8u);
      EXPECT_EQ(keys->TrialOf(replica, 7).right, trial.right) << "asked twice it shows nothing more";
      places.insert(trial.right);
    }
    EXPECT_EQ(places.size(), 8u) << "each place occurs";
  });
}

TEST(ReplicaKeys, ADamagedSecretIsReportedAndNotReplaced) {
  tests::RunOnLoop([](TestLoop&) -> net::Task<void> {
    tests::MemoryStore store;
    std::vector<store::Write> writes{store::Write::Create("secret", "replica_keys", "spoilt")};
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    EXPECT_TRUE(absl::IsDataLoss((co_await ReplicaKeys::Load(store)).status()));
  });
}

}  // namespace
}  // namespace gateway::control
