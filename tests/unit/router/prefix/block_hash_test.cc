#include "router/prefix/block_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "router/facts/body_facts.h"

namespace router::prefix {
namespace {

std::string Text(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i) + ' ';
  text.resize(bytes);
  return text;
}

std::vector<uint64_t> Hash(std::string_view text, uint64_t salt = 0) {
  BlockHasher hasher;
  hasher.Begin(salt);
  hasher.Add(text);
  return {hasher.blocks().begin(), hasher.blocks().end()};
}

size_t Common(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  return common;
}

TEST(BlockHasher, PromptsShareHashesAsFarAsTheyShareBlocks) {
  const std::string text = Text(10 * kBlockBytes + 100);
  const std::vector<uint64_t> whole = Hash(text);
  ASSERT_EQ(whole.size(), 10u);
  EXPECT_EQ(Common(whole, Hash(text + "and more of it")), 10u);
  for (const size_t at : {size_t{0}, kBlockBytes - 1, kBlockBytes, 5 * kBlockBytes + 7}) {
    std::string changed = text;
    changed[at] ^= 1;
    EXPECT_EQ(Common(whole, Hash(changed)), at / kBlockBytes) << at;
  }
}

TEST(BlockHasher, SplittingBytesIntoCallsChangesNothing) {
  const std::string text = Text(5 * kBlockBytes + 3);
  for (const size_t step : {size_t{1}, size_t{7}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1}) {
    BlockHasher hasher;
    for (size_t at = 0; at < text.size(); at += step) hasher.Add(std::string_view(text).substr(at, step));
    EXPECT_EQ(std::vector(hasher.blocks().begin(), hasher.blocks().end()), Hash(text)) << step;
    EXPECT_EQ(hasher.bytes(), text.size());
  }
}

TEST(BlockHasher, AHashCoversAllBlocksBefore) {
  const std::string same = Text(kBlockBytes);
  const std::vector<uint64_t> twice = Hash(same + same);
  ASSERT_EQ(twice.size(), 2u);
  EXPECT_NE(twice[0], twice[1]);
}

TEST(BlockHasher, AnotherModelOrAdapterHasNothingInCommon) {
  const std::string text = Text(4 * kBlockBytes);
  EXPECT_EQ(Common(Hash(text, SaltOf("a", "")), Hash(text, SaltOf("b", ""))), 0u);
  EXPECT_EQ(Common(Hash(text, SaltOf("a", "")), Hash(text, SaltOf("a", "lora"))), 0u);
  EXPECT_EQ(Common(Hash(text, SaltOf("ab", "")), Hash(text, SaltOf("a", "b"))), 0u);
}

TEST(BlockHasher, TokenIdsAreHashedAsTheyAre) {
  std::array<uint32_t, 2 * kBlockBytes / 4> ids{};
  for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
  BlockHasher hasher;
  hasher.Add(std::span<const uint32_t>(ids));
  ASSERT_EQ(hasher.blocks().size(), 2u);
  const uint64_t first = hasher.blocks()[0];
  const uint64_t second = hasher.blocks()[1];
  ids[100] = 7;
  hasher.Begin(0);
  hasher.Add(std::span<const uint32_t>(ids));
  EXPECT_EQ(hasher.blocks()[0], first);
  EXPECT_NE(hasher.blocks()[1], second);
}

TEST(BlockHasher, ALongPromptIsHashedUpToTheMaximum) {
  BlockHasher hasher;
  const std::string megabyte = Text(1 << 20);
  for (int i = 0; i < 5; ++i) hasher.Add(megabyte);
  EXPECT_EQ(hasher.blocks().size(), kMaxBlocks);
  EXPECT_EQ(hasher.bytes(), uint64_t{5} << 20);
}

std::vector<uint64_t> HashBody(const std::string& body, Api api = Api::kChatCompletions) {
  FactsScanner scanner;
  BodyFacts facts;
  EXPECT_FALSE(scanner.Scan(body, api, facts)) << body;
  BlockHasher hasher;
  const auto blocks = HashPrompt(facts, body, 0, hasher);
  return {blocks.begin(), blocks.end()};
}

TEST(HashPrompt, TheNextTurnOfAConversationBeginsLikeTheLast) {
  const std::string first = R"({"role":"user","content":")" + Text(2000) + R"("})";
  const std::string answer = R"(,{"role":"assistant","content":")" + Text(900) + R"("})";
  const auto one = HashBody(R"({"model":"m","messages":[)" + first + "]}");
  const auto two = HashBody(R"({"model":"m","messages":[)" + first + answer + R"(],"temperature":0})");
  ASSERT_GE(one.size(), 7u);
  EXPECT_EQ(Common(one, two), one.size());
}

TEST(HashPrompt, ToolsComeBeforeMessagesWhereverTheyStandInTheBody) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":")" + Text(600) + R"("}}])";
  const std::string messages = R"("messages":[{"role":"user","content":")" + Text(600) + R"("}])";
  const auto one = HashBody(R"({"model":"m",)" + tools + "," + messages + "}");
  const auto two = HashBody(R"({"model":"m",)" + messages + "," + tools + "}");
  EXPECT_EQ(one, two);
  EXPECT_FALSE(one.empty());
}

}  // namespace
}  // namespace router::prefix
