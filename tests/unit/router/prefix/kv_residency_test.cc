#include "router/prefix/kv_residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "router/prefix/block_hash.h"
#include "scheduler/rng.h"

namespace router::prefix {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kNow{std::chrono::seconds(1'000'000)};
constexpr uint64_t kSalt = 7;
constexpr uint32_t kBlock = 16;
constexpr size_t kTokenBytes = 4;  // each token of these prompts stands for so many bytes

// A prompt as text blocks and as tokens; prompts of one family begin alike.
struct Prompt {
  Prompt(uint64_t family, size_t token_count, uint64_t tail = 0) {
    scheduler::Rng rng(family);
    BlockHasher hasher;
    hasher.Begin(kSalt);
    for (size_t i = 0; i < token_count; ++i) {
      if (tail != 0 && i == token_count / 2) rng = scheduler::Rng(tail);
      tokens.push_back(rng.Next() >> 40);
      hasher.Add(std::string(reinterpret_cast<const char*>(&tokens.back()), kTokenBytes));
      ends.push_back((i + 1) * kTokenBytes);
    }
    blocks.assign(hasher.blocks().begin(), hasher.blocks().end());
    bytes = token_count * kTokenBytes;
  }
  LearntPrompt View(bool exact = true) const {
    return {blocks, bytes, tokens, exact ? std::span<const uint64_t>(ends) : std::span<const uint64_t>()};
  }

  std::vector<uint64_t> blocks;
  std::vector<uint64_t> tokens;
  std::vector<uint64_t> ends;
  uint64_t bytes = 0;
};

// An engine's cache: hashes of its own, told as events.
class Engine {
 public:
  Engine(Index& index, KvResidency& residency, uint64_t salt = kSalt, uint32_t block = kBlock)
      : index_(index), residency_(residency), block_(block), member(*index.Join(1'000)) {
    residency.Join(member, salt);
    index.SetReporting(member, true);
  }

  // The blocks [from, to) of a prompt come into the cache.
  void Store(const Prompt& prompt, size_t from, size_t to) {
    std::vector<uint64_t> hashes;
    for (size_t i = from; i < to; ++i) hashes.push_back(HashOf(prompt, i));
    residency_.Stored(member,
                      {.hashes = hashes,
                       .parent = from > 0 ? std::optional(HashOf(prompt, from - 1)) : std::nullopt,
                       .tokens = std::span(prompt.tokens).subspan(from * block_, (to - from) * block_),
                       .block_size = block_},
                      kNow);
  }
  void Store(const Prompt& prompt) { Store(prompt, 0, prompt.tokens.size() / block_); }
  void Evict(const Prompt& prompt, size_t from, size_t to) {
    std::vector<uint64_t> hashes;
    for (size_t i = from; i < to; ++i) hashes.push_back(HashOf(prompt, i));
    residency_.Removed(member, hashes);
  }
  // Text blocks of the prompt that the index takes it to hold.
  uint32_t Found(const Prompt& prompt, conf::TimePoint now = kNow) const {
    std::vector<Holder> out(32);
    out.resize(index_.Find(prompt.blocks, now, out));
    for (const Holder& holder : out) {
      if (holder.member == member) return holder.blocks;
    }
    return 0;
  }

 private:
  uint64_t HashOf(const Prompt& prompt, size_t block) const {
    uint64_t hash = 0xabcdef + static_cast<uint64_t>(member);
    for (size_t i = 0; i < (block + 1) * block_; ++i) hash = (hash ^ prompt.tokens[i]) * 0x100000001b3;
    return hash;
  }

  Index& index_;
  KvResidency& residency_;
  const uint32_t block_;

 public:
  const MemberId member;
};

// 64 tokens, four token blocks, to a block of text.
constexpr size_t kPerText = kBlockBytes / kTokenBytes / kBlock;

struct KvResidencyTest : testing::Test {
  Index index;
  KvResidency residency{index};
};

TEST_F(KvResidencyTest, AnEvictedPrefixIsRemovedAtOnce) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 20);
  index.Confirm(prompt.blocks, engine.member, kNow);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(engine.Found(prompt), 20u);
  engine.Evict(prompt, 12 * kPerText, 20 * kPerText);
  EXPECT_EQ(engine.Found(prompt), 12u);
  engine.Evict(prompt, 0, 12 * kPerText);
  EXPECT_EQ(engine.Found(prompt), 0u);
}

TEST_F(KvResidencyTest, ABlockStoredAgainIsReportedWithoutLearning) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 10);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  engine.Evict(prompt, 0, 10 * kPerText);
  engine.Store(prompt, 0, 6 * kPerText);
  EXPECT_EQ(engine.Found(prompt), 6u);
}

TEST_F(KvResidencyTest, AKnownPromptStoredByAnotherReplicaIsReported) {
  Engine first(index, residency);
  Engine second(index, residency);
  const Prompt prompt(1, 64 * 10);
  first.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  second.Store(prompt, 0, 4 * kPerText);
  EXPECT_EQ(second.Found(prompt), 4u);
  EXPECT_EQ(first.Found(prompt), 10u);
}

TEST_F(KvResidencyTest, LearningReportsEveryReplicaThatHoldsThePrompt) {
  Engine first(index, residency);
  Engine second(index, residency);
  const Prompt prompt(1, 64 * 10);
  second.Store(prompt);
  first.Store(prompt, 0, 2 * kPerText);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(first.Found(prompt), 2u);
  EXPECT_EQ(second.Found(prompt), 10u);
}

TEST_F(KvResidencyTest, LearningRemovesGuessesThatAReplicaDoesNotHold) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 10);
  index.Confirm(prompt.blocks, engine.member, kNow);
  engine.Store(prompt);
  engine.Evict(prompt, 5 * kPerText, 10 * kPerText);  // before anybody knew which text it was
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(engine.Found(prompt), 5u);
}

TEST_F(KvResidencyTest, AGuessStaysWithoutEvents) {
  Engine engine(index, residency);
  Engine other(index, residency);
  const Prompt prompt(1, 64 * 10);
  const Prompt old(2, 64 * 4);
  engine.Store(Prompt(3, 64));
  index.Confirm(prompt.blocks, engine.member, kNow);
  index.Confirm(old.blocks, other.member, kNow);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(engine.Found(prompt), 10u) << "its events are on their way, or it was stored long ago";
  EXPECT_EQ(other.Found(old), 4u);
}

TEST_F(KvResidencyTest, ReportedBlocksDoNotAge) {
  Engine engine(index, residency);
  index.SetCapacity(engine.member, 50);
  const Prompt prompt(1, 64 * 20);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  for (uint64_t i = 10; i < 60; ++i) index.Confirm(Prompt(i, 64 * 20).blocks, engine.member, kNow);
  EXPECT_EQ(engine.Found(prompt, kNow + 24h), 20u);
  index.SetReporting(engine.member, false);
  EXPECT_EQ(engine.Found(prompt), 0u) << "without its word, it is long gone by the guess";
}

TEST_F(KvResidencyTest, APromptKnownByProportionIsCloseToTheTruth) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 100);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(false), kNow);
  EXPECT_EQ(engine.Found(prompt), 100u);
  engine.Evict(prompt, 60 * kPerText, 100 * kPerText);
  EXPECT_NEAR(engine.Found(prompt), 60, 1);
}

TEST_F(KvResidencyTest, TheEndsOfAnEarlierTurnAreKept) {
  Engine engine(index, residency);
  const Prompt turn(1, 64 * 10);
  residency.Learn(kSalt, turn.View(), kNow);  // nobody has told a block size yet: nothing is learnt
  engine.Store(turn);
  residency.Learn(kSalt, turn.View(), kNow);
  // The next turn has the same beginning, and twenty times as many bytes a token behind it.
  Prompt next = turn;
  scheduler::Rng rng(9);
  for (int i = 0; i < 200; ++i) next.blocks.push_back(rng.Next());
  for (int i = 0; i < 640; ++i) next.tokens.push_back(static_cast<uint64_t>(i));
  next.bytes = next.blocks.size() * kBlockBytes;
  engine.Store(next, 10 * kPerText, next.tokens.size() / kBlock);
  residency.Learn(kSalt, next.View(false), kNow);
  EXPECT_EQ(engine.Found(next), 210u);
  engine.Evict(next, 10 * kPerText, next.tokens.size() / kBlock);
  EXPECT_NEAR(engine.Found(next), 10, 3);
}

TEST_F(KvResidencyTest, ClearingLeavesNothing) {
  Engine engine(index, residency);
  Engine other(index, residency);
  const Prompt prompt(1, 64 * 10);
  const Prompt guessed(2, 64 * 10);
  engine.Store(prompt);
  other.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  index.Confirm(guessed.blocks, engine.member, kNow);
  residency.Clear(engine.member);
  EXPECT_EQ(engine.Found(prompt), 0u);
  EXPECT_EQ(engine.Found(guessed), 0u);
  EXPECT_EQ(other.Found(prompt), 10u);
  EXPECT_EQ(residency.BlocksOf(engine.member), 0u);
  engine.Store(prompt, 0, kPerText);
  EXPECT_EQ(engine.Found(prompt), 1u);
}

TEST_F(KvResidencyTest, DistrustMakesGuessesOfReports) {
  Engine engine(index, residency);
  index.SetCapacity(engine.member, 50);
  const Prompt prompt(1, 64 * 20);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  residency.Distrust(engine.member);
  EXPECT_EQ(engine.Found(prompt), 20u);
  EXPECT_FALSE(index.IsReported(prompt.blocks[0], engine.member));
  for (uint64_t i = 10; i < 60; ++i) index.Confirm(Prompt(i, 64 * 20).blocks, engine.member, kNow);
  EXPECT_EQ(engine.Found(prompt), 0u);
}

TEST_F(KvResidencyTest, BlocksAfterUnknownOnesAreLeftOut) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 10);
  engine.Store(prompt, kPerText, 2 * kPerText);
  EXPECT_EQ(residency.stats().orphans, kPerText);
  EXPECT_EQ(residency.BlocksOf(engine.member), 0u);
}

TEST_F(KvResidencyTest, ModelsAndBlockSizesDoNotMix) {
  Engine small(index, residency, kSalt, 16);
  Engine large(index, residency, kSalt, 64);
  Engine foreign(index, residency, 8);
  const Prompt prompt(1, 64 * 10);
  small.Store(prompt);
  large.Store(prompt, 0, 5);
  foreign.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(small.Found(prompt), 10u);
  EXPECT_EQ(large.Found(prompt), 5u);
  EXPECT_EQ(foreign.Found(prompt), 0u);
}

TEST_F(KvResidencyTest, SeveralTextBlocksMayStandForOneTokenBlock) {
  Engine engine(index, residency, kSalt, 256);
  const Prompt prompt(1, 256 * 3);
  engine.Store(prompt);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(engine.Found(prompt), 12u);
  engine.Evict(prompt, 1, 3);
  EXPECT_NEAR(engine.Found(prompt), 5, 1);
}

TEST(KvResidencyBounds, FullTablesTakeNoMore) {
  Index index;
  KvResidency residency(index, {.max_blocks = 100, .max_links = 64});
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 50);
  engine.Store(prompt);
  EXPECT_EQ(residency.stats().blocks, 100u);
  EXPECT_EQ(residency.stats().untracked, 100u);
  residency.Learn(kSalt, prompt.View(), kNow);
  EXPECT_EQ(engine.Found(prompt), 25u);
  for (uint64_t i = 2; i < 50; ++i) residency.Learn(kSalt, Prompt(i, 64 * 10).View(), kNow);
  EXPECT_LE(residency.stats().links, 64u);
  engine.Evict(prompt, 0, 100);
  EXPECT_EQ(engine.Found(prompt), 0u) << "what was told is taken back, its link being forgotten or not";
}

TEST_F(KvResidencyTest, InconsistentPromptsAreIgnored) {
  Engine engine(index, residency);
  const Prompt prompt(1, 64 * 10);
  engine.Store(prompt);
  LearntPrompt view = prompt.View();
  view.bytes = 5;
  residency.Learn(kSalt, view, kNow);
  view = prompt.View();
  view.ends = view.ends.first(3);
  residency.Learn(kSalt, view, kNow);
  view = prompt.View(false);
  view.tokens = {};
  residency.Learn(kSalt, view, kNow);
  EXPECT_EQ(engine.Found(prompt), 0u);
  residency.Leave(engine.member);
  residency.Removed(engine.member, prompt.tokens);
  residency.Clear(engine.member);
  engine.Store(prompt);
  EXPECT_EQ(residency.stats().blocks, 0u);
}

// What the table says is what a model of it says, whatever happens in whatever order.
TEST(KvResidencyProperty, TheIndexMatchesTheEnginesCache) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Index index;
    KvResidency residency(index);
    Engine engine(index, residency);
    engine.Store(Prompt(99, 64));  // tells its block size, without which nothing is learnt
    std::vector<Prompt> prompts;
    for (uint64_t i = 0; i < 8; ++i) prompts.emplace_back(i / 2 + 1, 64 * 8, 100 + i);
    std::map<std::vector<uint64_t>, bool> held;  // by the tokens of a prefix of whole blocks
    const auto prefix = [&](const Prompt& prompt, size_t blocks) {
      return std::vector<uint64_t>(prompt.tokens.begin(),
                                   prompt.tokens.begin() + static_cast<std::ptrdiff_t>(blocks * kBlock));
    };
    const auto length = [&](const Prompt& prompt) {
      size_t blocks = 0;
      while (blocks < 8 * kPerText && held[prefix(prompt, blocks + 1)]) ++blocks;
      return blocks;
    };
    scheduler::Rng rng(seed);
    std::vector<bool> learnt(prompts.size());
    for (int step = 0; step < 400; ++step) {
      const size_t which = rng.Next() % prompts.size();
      const Prompt& prompt = prompts[which];
      const size_t now = length(prompt);
      const uint64_t what = rng.Next() % 8;
      if (what < 4) {
        const size_t to = now + rng.Next() % (8 * kPerText - now + 1);
        if (to > now) engine.Store(prompt, now, to);
        for (size_t i = now; i < to; ++i) held[prefix(prompt, i + 1)] = true;
      } else if (what < 6 && now > 0) {
        // Engines evict leaves first.
        const size_t from = rng.Next() % now;
        std::vector<size_t> lengths;
        for (const Prompt& other : prompts) lengths.push_back(length(other));
        for (size_t o = 0; o < prompts.size(); ++o) {
          if (prefix(prompts[o], from + 1) != prefix(prompt, from + 1)) continue;
          for (size_t i = lengths[o]; i > from; --i) {
            engine.Evict(prompts[o], i - 1, i);
            held[prefix(prompts[o], i)] = false;
          }
        }
      } else if (what == 6) {
        residency.Learn(kSalt, prompt.View(), kNow);
        learnt[which] = true;
      } else if (rng.Next() % 20 == 0) {
        residency.Clear(engine.member);
        held.clear();
      }
      for (size_t i = 0; i < prompts.size(); ++i) {
        if (!learnt[i]) continue;
        ASSERT_EQ(engine.Found(prompts[i]), length(prompts[i]) / kPerText)
            << "seed " << seed << " step " << step;
      }
    }
  }
}

// Shards look up and predict while events come in.
TEST(KvResidencyConcurrency, EventsComeWhileShardsLookUp) {
  Index index;
  KvResidency residency(index);
  Engine engine(index, residency);
  std::vector<Prompt> prompts;
  for (uint64_t i = 1; i <= 8; ++i) prompts.emplace_back(i, 64 * 8);
  std::atomic<bool> done = false;
  std::vector<std::thread> shards;
  for (int shard = 0; shard < 2; ++shard) {
    shards.emplace_back([&] {
      while (!done) {
        for (const Prompt& prompt : prompts) {
          engine.Found(prompt);
          index.Predict(prompt.blocks, engine.member, kNow);
          index.Confirm(prompt.blocks, engine.member, kNow);
          if (index.reporting(engine.member)) index.IsReported(prompt.blocks.back(), engine.member);
        }
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    for (const Prompt& prompt : prompts) {
      engine.Store(prompt);
      residency.Learn(kSalt, prompt.View(), kNow);
      engine.Evict(prompt, 0, 8 * kPerText);
    }
    if (round % 10 == 0) residency.Clear(engine.member);
    if (round % 7 == 0) residency.Distrust(engine.member);
    index.SetReporting(engine.member, round % 5 != 0);
  }
  done = true;
  for (std::thread& shard : shards) shard.join();
  EXPECT_EQ(residency.stats().blocks, 0u);
}

}  // namespace
}  // namespace router::prefix
