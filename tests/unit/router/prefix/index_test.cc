#include "router/prefix/index.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "scheduler/engine/kv_cache.h"
#include "scheduler/rng.h"

namespace router::prefix {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kNow{std::chrono::seconds(1'000'000)};

// A prompt of the given family: prompts of one family begin alike.
std::vector<uint64_t> Prompt(uint64_t family, size_t blocks) {
  scheduler::Rng rng(family);
  std::vector<uint64_t> prompt;
  for (size_t i = 0; i < blocks; ++i) prompt.push_back(rng.Next());
  return prompt;
}

std::map<MemberId, uint32_t> Find(const Index& index, const std::vector<uint64_t>& blocks,
                                  conf::TimePoint now = kNow, size_t most = 32) {
  std::vector<Holder> out(most);
  out.resize(index.Find(blocks, now, out));
  std::map<MemberId, uint32_t> found;
  for (size_t i = 0; i < out.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(out[i].blocks, out[i - 1].blocks);
    }
    EXPECT_TRUE(found.emplace(out[i].member, out[i].blocks).second) << "listed twice";
  }
  return found;
}

TEST(PrefixIndex, FindsHoldersAndTheirPrefixLengths) {
  Index index;
  const MemberId a = *index.Join(1000);
  const MemberId b = *index.Join(1000);
  const MemberId c = *index.Join(1000);
  const auto prompt = Prompt(1, 100);
  index.Confirm(std::span(prompt).first(10), a, kNow);
  index.Confirm(prompt, b, kNow);
  index.Confirm(Prompt(2, 50), c, kNow);
  EXPECT_EQ(Find(index, prompt), (std::map<MemberId, uint32_t>{{a, 10}, {b, 100}}));
  EXPECT_EQ(Find(index, Prompt(3, 5)).size(), 0u);
  EXPECT_EQ(Find(index, {}).size(), 0u);
}

TEST(PrefixIndex, ANewPromptIsMatchedAsFarAsItIsKnown) {
  Index index;
  const MemberId a = *index.Join(1000);
  for (const size_t shared : {1u, 2u, 63u, 99u}) {
    const auto known = Prompt(shared, 100);
    index.Confirm(known, a, kNow);
    std::vector<uint64_t> asked(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(shared));
    for (uint64_t i = 0; i < 40; ++i) asked.push_back(~i);
    EXPECT_EQ(Find(index, asked)[a], shared);
  }
}

TEST(PrefixIndex, ReturnsTheLongestHoldersWhenThereAreMoreThanAskedFor) {
  Index index;
  const auto prompt = Prompt(1, 64);
  std::vector<MemberId> members;
  for (size_t i = 1; i <= 60; ++i) {
    members.push_back(*index.Join(1000));
    index.Confirm(std::span(prompt).first(i), members.back(), kNow);
  }
  const auto found = Find(index, prompt, kNow, 8);
  ASSERT_EQ(found.size(), 8u);
  for (size_t i = 52; i < 60; ++i) EXPECT_EQ(found.at(members[i]), i + 1);
}

TEST(PrefixIndex, ForgetsAnUnconfirmedPrediction) {
  Index index({.predicted_for = 30s});
  const MemberId a = *index.Join(1000);
  const auto prompt = Prompt(1, 10);
  index.Predict(prompt, a, kNow);
  EXPECT_EQ(Find(index, prompt, kNow + 29s)[a], 10u);
  EXPECT_TRUE(Find(index, prompt, kNow + 31s).empty());
  index.Predict(prompt, a, kNow + 40s);
  index.Confirm(prompt, a, kNow + 41s);
  EXPECT_EQ(Find(index, prompt, kNow + 1h)[a], 10u);
  index.Predict(prompt, a, kNow + 1h);  // what has been confirmed stays so
  EXPECT_EQ(Find(index, prompt, kNow + 2h)[a], 10u);
}

TEST(PrefixIndex, NeverReturnsAReplicaThatHasLeft) {
  Index index;
  const MemberId a = *index.Join(1000);
  const MemberId b = *index.Join(1000);
  const auto prompt = Prompt(1, 20);
  index.Confirm(prompt, a, kNow);
  index.Confirm(prompt, b, kNow);
  index.Leave(a);
  EXPECT_EQ(Find(index, prompt), (std::map<MemberId, uint32_t>{{b, 20}}));
  index.Confirm(prompt, a, kNow);  // a late answer of its
  EXPECT_EQ(Find(index, prompt), (std::map<MemberId, uint32_t>{{b, 20}}));
  const MemberId next = *index.Join(1000);  // takes its number, not its prefixes
  EXPECT_EQ(next, a);
  EXPECT_EQ(Find(index, prompt), (std::map<MemberId, uint32_t>{{b, 20}}));
  EXPECT_EQ(index.BlocksOf(next), 0u);
}

TEST(PrefixIndex, AClearedReplicaLearnsAgain) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto prompt = Prompt(1, 20);
  index.Confirm(prompt, a, kNow);
  index.Clear(a);
  EXPECT_TRUE(Find(index, prompt).empty());
  index.Confirm(std::span(prompt).first(5), a, kNow);
  EXPECT_EQ(Find(index, prompt)[a], 5u);
}

TEST(PrefixIndex, KeepsNoMoreOfAReplicaThanItsCacheHolds) {
  Index index;
  constexpr uint32_t kCapacity = 1000;
  const MemberId a = *index.Join(kCapacity);
  const MemberId b = *index.Join(kCapacity);
  const auto bystander = Prompt(9999, 40);
  index.Confirm(bystander, b, kNow);
  for (uint64_t family = 0; family < 500; ++family) {
    index.Confirm(Prompt(family, 1 + family % 60), a, kNow + std::chrono::seconds(family));
    ASSERT_LE(index.BlocksOf(a), kCapacity);
  }
  EXPECT_GT(index.BlocksOf(a), kCapacity * 8 / 10);
  EXPECT_EQ(Find(index, Prompt(499, 20))[a], 20u);
  EXPECT_TRUE(Find(index, Prompt(1, 2)).empty()) << "the least recently used goes first";
  EXPECT_EQ(Find(index, bystander)[b], 40u);
}

TEST(PrefixIndex, ReusedBlocksStayAndThePromptsBeginningStaysLongest) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto hot = Prompt(1, 50);
  index.Confirm(hot, a, kNow);
  for (uint64_t family = 100; family < 400; ++family) {
    index.Confirm(Prompt(family, 20), a, kNow);
    if (family % 10 == 0) index.Confirm(std::span(hot).first(30), a, kNow);
  }
  const auto found = Find(index, hot);
  EXPECT_EQ(found.at(a), 30u);
}

// What is used again moves on to the newest generation; the older ones must then last for longer.
TEST(PrefixIndex, ReuseDoesNotShrinkTheStoredPrefix) {
  for (const uint64_t again : {1u, 4u, 20u}) {
    Index index;
    constexpr uint32_t kCapacity = 10'000;
    const MemberId a = *index.Join(kCapacity);
    for (uint64_t family = 0; family < 3000; ++family) {
      index.Confirm(Prompt(family, 20), a, kNow);
      for (uint64_t i = 1; i <= again && i <= family; ++i) index.Confirm(Prompt(family - i, 20), a, kNow);
    }
    EXPECT_GT(index.BlocksOf(a), kCapacity * 9 / 10) << again;
    EXPECT_LE(index.BlocksOf(a), kCapacity) << again;
    EXPECT_EQ(Find(index, Prompt(3000 - 400, 20))[a], 20u) << again;
  }
}

TEST(PrefixIndex, ASmallerCapacityTakesEffectAtOnce) {
  Index index;
  const MemberId a = *index.Join(10'000);
  for (uint64_t family = 0; family < 100; ++family) index.Confirm(Prompt(family, 50), a, kNow);
  EXPECT_EQ(index.BlocksOf(a), 5000u);
  index.SetCapacity(a, 1000);
  EXPECT_LE(index.BlocksOf(a), 1000u);
}

TEST(PrefixIndex, NeverExceedsItsBytes) {
  constexpr size_t kBytes = 2 << 20;
  Index index({.max_bytes = kBytes, .max_members = 64});
  const size_t at_first = index.stats().bytes;
  EXPECT_LE(at_first, kBytes);
  EXPECT_GT(at_first, kBytes * 9 / 10);
  std::vector<MemberId> members;
  for (int i = 0; i < 8; ++i) members.push_back(*index.Join(1'000'000));
  for (uint64_t family = 0; family < 20'000; ++family) {
    index.Confirm(Prompt(family, 20), members[family % 8], kNow + std::chrono::milliseconds(100 * family));
  }
  const IndexStats stats = index.stats();
  EXPECT_EQ(stats.bytes, at_first);
  EXPECT_LE(stats.entries, stats.capacity);
  EXPECT_GT(stats.displaced, 0u);
  EXPECT_LT(stats.BytesPerEntry(), 50);
  // What came last is there, but for the few that the sample was unlucky with.
  size_t held = 0;
  for (uint64_t family = 19'900; family < 20'000; ++family) {
    const auto found = Find(index, Prompt(family, 20));
    if (found.contains(members[family % 8]) && found.at(members[family % 8]) == 20) ++held;
  }
  EXPECT_GE(held, 95u);
}

TEST(PrefixIndex, DeadEntriesAreEvictedBeforeLiveOnes) {
  Index index({.max_bytes = 1 << 20, .max_members = 8});
  const MemberId dead = *index.Join(1'000'000);
  const MemberId a = *index.Join(1'000'000);
  const size_t capacity = index.stats().capacity;
  for (uint64_t family = 0; family < capacity / 30; ++family) index.Confirm(Prompt(family, 20), dead, kNow);
  index.Leave(dead);
  for (uint64_t family = 1'000'000; family < 1'000'000 + capacity / 30; ++family) {
    index.Confirm(Prompt(family, 20), a, kNow);
  }
  EXPECT_LT(static_cast<double>(index.stats().displaced), 0.01 * static_cast<double>(capacity));
}

TEST(PrefixIndex, ABlockHasABoundedNumberOfHolders) {
  Index index;
  const auto prompt = Prompt(1, 4);
  std::vector<MemberId> members;
  for (int i = 0; i < 300; ++i) {
    members.push_back(*index.Join(100));
    index.Confirm(prompt, members.back(), kNow + std::chrono::seconds(i));
  }
  const auto found = Find(index, prompt, kNow + 300s, 100);
  EXPECT_EQ(found.size(), Index::kMaxHolders);
  EXPECT_TRUE(found.contains(members.back())) << "the latest are the ones that are named";
  EXPECT_EQ(index.stats().entries, prompt.size() * Index::kMaxHolders);
}

TEST(PrefixIndex, RefusesMoreThanMaxMembers) {
  Index index({.max_members = 2});
  const auto a = index.Join(10);
  ASSERT_TRUE(a && index.Join(10));
  EXPECT_FALSE(index.Join(10));
  index.Leave(*a);
  EXPECT_TRUE(index.Join(10));
}

// Against a plain model: a map of what was confirmed, nothing evicted.
TEST(PrefixIndex, AgreesWithAPlainModelOverRandomPrompts) {
  Index index;
  scheduler::Rng rng(7);
  std::vector<MemberId> members;
  for (int i = 0; i < 12; ++i) members.push_back(*index.Join(1'000'000));
  std::map<std::pair<MemberId, uint64_t>, size_t> longest;  // by family
  for (int step = 0; step < 3000; ++step) {
    const uint64_t family = rng.Uniform(50);
    const MemberId member = members[rng.Uniform(members.size())];
    const size_t length = 1 + rng.Uniform(150);
    if (rng.Uniform(3) > 0) {
      index.Confirm(Prompt(family, length), member, kNow);
      size_t& known = longest[{member, family}];
      known = std::max(known, length);
    } else {
      const auto found = Find(index, Prompt(family, length));
      for (const MemberId m : members) {
        const size_t expected = std::min(longest[{m, family}], length);
        ASSERT_EQ(found.contains(m) ? found.at(m) : 0, expected);
      }
    }
  }
}

// What runs is pinned in the engine's cache, whatever comes meanwhile.
TEST(PrefixIndex, BlocksOfARunningRequestStay) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto running = Prompt(1, 300);
  index.Predict(running, a, kNow);
  index.Hold(running, a, kNow);
  const auto fill = [&](uint64_t from) {
    for (uint64_t family = from; family < from + 100; ++family) {
      index.Confirm(Prompt(family, 20), a, kNow + 1h);
      ASSERT_LE(index.BlocksOf(a), 1000u);
    }
  };
  fill(100);
  EXPECT_EQ(Find(index, running, kNow + 1h)[a], 300u);
  EXPECT_GT(index.BlocksOf(a), 900u) << "the rest has what room it leaves";
  index.Release(running, a, 0);
  EXPECT_EQ(Find(index, running, kNow + 1h)[a], 300u) << "it is now the one last used";
  fill(200);
  EXPECT_TRUE(Find(index, running, kNow + 1h).empty());
}

TEST(PrefixIndex, BlocksWhoseLastRequestEndedFirstAreEvictedFirst) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto longest = Prompt(1, 200);
  const auto shortest = Prompt(2, 200);
  index.Hold(longest, a, kNow);
  index.Hold(shortest, a, kNow);
  index.Release(shortest, a, 0);
  for (uint64_t family = 100; family < 120; ++family) index.Confirm(Prompt(family, 20), a, kNow);
  index.Release(longest, a, 0);
  for (uint64_t family = 200; family < 220; ++family) index.Confirm(Prompt(family, 20), a, kNow);
  EXPECT_TRUE(Find(index, shortest).empty()) << "though it began later";
  EXPECT_EQ(Find(index, longest)[a], 200u);
}

TEST(PrefixIndex, BlocksOfSeveralRequestsStayUntilTheLastEnds) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto first = Prompt(1, 100);
  auto second = std::vector<uint64_t>(first.begin(), first.begin() + 60);
  for (const uint64_t block : Prompt(2, 40)) second.push_back(block);
  index.Hold(first, a, kNow);
  index.Hold(second, a, kNow);
  EXPECT_EQ(index.BlocksOf(a), 140u);
  index.Release(first, a, 0);
  for (uint64_t family = 100; family < 200; ++family) index.Confirm(Prompt(family, 20), a, kNow);
  EXPECT_EQ(Find(index, first)[a], 60u);
  EXPECT_EQ(Find(index, second)[a], 100u);
  index.Release(second, a, 0);
  for (uint64_t family = 300; family < 400; ++family) index.Confirm(Prompt(family, 20), a, kNow);
  EXPECT_TRUE(Find(index, second).empty());
}

// More than an entry counts: it is given up too early, and never kept for ever.
TEST(PrefixIndex, ABlockWithMoreUsersThanItCountsIsReleased) {
  Index index;
  const MemberId a = *index.Join(100);
  const auto prompt = Prompt(1, 10);
  for (int i = 0; i < 1000; ++i) index.Hold(prompt, a, kNow);
  EXPECT_EQ(index.BlocksOf(a), 10u);
  for (int i = 0; i < 1000; ++i) index.Release(prompt, a, 0);
  for (uint64_t family = 100; family < 120; ++family) index.Confirm(Prompt(family, 20), a, kNow);
  EXPECT_TRUE(Find(index, prompt).empty());
}

TEST(PrefixIndex, AnAnswerTakesCapacityLikeAPrompt) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto old = Prompt(1, 100);
  index.Confirm(old, a, kNow);
  for (uint64_t family = 100; family < 110; ++family) {
    const auto prompt = Prompt(family, 10);
    index.Hold(prompt, a, kNow);
    index.Release(prompt, a, 90);
    ASSERT_LE(index.BlocksOf(a), 1000u);
  }
  EXPECT_TRUE(Find(index, old).empty());
  EXPECT_EQ(Find(index, Prompt(109, 10))[a], 10u);
}

TEST(PrefixIndex, ReleaseAfterAClearAddsNothing) {
  Index index;
  const MemberId a = *index.Join(1000);
  const auto prompt = Prompt(1, 20);
  index.Hold(prompt, a, kNow);
  index.Clear(a);
  EXPECT_EQ(index.BlocksOf(a), 0u);
  EXPECT_TRUE(Find(index, prompt).empty());
  index.Release(prompt, a, 0);
  EXPECT_EQ(index.BlocksOf(a), 0u);
  EXPECT_TRUE(Find(index, prompt).empty());
  index.Hold(prompt, a, kNow);
  index.Release(prompt, a, 0);
  EXPECT_EQ(index.BlocksOf(a), 20u);
  EXPECT_EQ(Find(index, prompt)[a], 20u);
}

// Against an engine's own cache, under the same requests.
TEST(PrefixIndex, PredictsTheEnginesEvictions) {
  constexpr uint32_t kBlocks = 4000;
  scheduler::engine::KvCache cache(kBlocks, true);
  Index index;
  const MemberId a = *index.Join(kBlocks);
  struct Running {
    std::vector<uint64_t> prompt;
    scheduler::engine::KvBlocks holding;
  };
  std::vector<Running> running;
  scheduler::Rng rng(3);
  uint64_t held = 0;
  uint64_t wrong = 0;
  for (int step = 0; step < 4000; ++step) {
    if (running.size() >= 30 || (!running.empty() && rng.Uniform(2) == 0)) {
      Running& ended = running[rng.Uniform(running.size())];
      cache.Release(ended.holding);
      index.Release(ended.prompt, a, 0);
      std::swap(ended, running.back());
      running.pop_back();
      continue;
    }
    Running next{Prompt(rng.Uniform(100), 20 + rng.Uniform(60)), {}};
    const size_t cached = cache.Match(next.prompt);
    const uint32_t guessed = Find(index, next.prompt)[a];
    held += cached;
    wrong += guessed > cached ? guessed - cached : cached - guessed;
    const auto plain = static_cast<uint32_t>(next.prompt.size() - cached);
    if (!cache.Admit(std::span(next.prompt).first(cached), plain, next.holding)) continue;
    cache.Publish(next.prompt, next.holding);
    index.Hold(next.prompt, a, kNow);
    running.push_back(std::move(next));
  }
  EXPECT_GT(held, 20'000u);
  EXPECT_LT(static_cast<double>(wrong), 0.03 * static_cast<double>(held));
}

TEST(PrefixIndex, IsConsistentUnderConcurrentShards) {
  Index index({.max_bytes = 1 << 20});
  std::vector<MemberId> members;
  for (int i = 0; i < 8; ++i) members.push_back(*index.Join(2000));
  std::vector<std::thread> shards;
  for (uint64_t shard = 0; shard < 4; ++shard) {
    shards.emplace_back([&, shard] {
      scheduler::Rng rng(shard);
      std::vector<Holder> out(16);
      for (int i = 0; i < 2000; ++i) {
        const auto prompt = Prompt(rng.Uniform(200), 1 + rng.Uniform(60));
        const MemberId member = members[rng.Uniform(members.size())];
        switch (rng.Uniform(9)) {
          case 0:
            index.Predict(prompt, member, kNow);
            break;
          case 1:
            index.Clear(member);
            break;
          case 2:
            index.Hold(prompt, member, kNow);
            index.Find(prompt, kNow, out);
            index.Release(prompt, member, 1);
            break;
          case 3:
          case 4:
            index.Confirm(prompt, member, kNow);
            break;
          default:
            for (size_t n = index.Find(prompt, kNow, out), j = 0; j < n; ++j) {
              ASSERT_LE(out[j].blocks, prompt.size());
            }
        }
      }
    });
  }
  for (std::thread& shard : shards) shard.join();
  EXPECT_LE(index.stats().entries, index.stats().capacity);
}

}  // namespace
}  // namespace router::prefix
