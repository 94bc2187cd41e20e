#include "gateway/shard/computed_prompts.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

ComputedPrompt Prompt(size_t bytes) {
  ComputedPrompt prompt;
  prompt.text = std::string(bytes, 'x');
  return prompt;
}

TEST(ComputedPrompts, SignalsTheFirstPromptOfAnEmptyQueueOnce) {
  ComputedPrompts prompts;
  int told = 0;
  prompts.on_first = [&] { ++told; };
  EXPECT_FALSE(prompts.Take());
  prompts.Add(Prompt(1));
  prompts.Add(Prompt(2));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(prompts.Take()->text.size(), 1u);
  EXPECT_EQ(prompts.Take()->text.size(), 2u);
  EXPECT_FALSE(prompts.Take());
  prompts.Add(Prompt(3));
  EXPECT_EQ(told, 2);
}

TEST(ComputedPrompts, IsBoundedInPromptsAndBytes) {
  ComputedPrompts prompts;
  for (size_t i = 0; i < ComputedPrompts::kMaxPrompts; ++i) {
    ASSERT_TRUE(prompts.HasRoomFor(1));
    prompts.Add(Prompt(1));
  }
  EXPECT_FALSE(prompts.HasRoomFor(1));
  prompts.Add(Prompt(1));
  EXPECT_EQ(prompts.dropped(), 2u);
  size_t taken = 0;
  while (prompts.Take()) ++taken;
  EXPECT_EQ(taken, ComputedPrompts::kMaxPrompts);

  EXPECT_FALSE(prompts.HasRoomFor(ComputedPrompts::kMaxBytes + 1));
  prompts.Add(Prompt(ComputedPrompts::kMaxBytes));
  EXPECT_FALSE(prompts.Take());
  prompts.Add(Prompt(ComputedPrompts::kMaxBytes / 2));
  prompts.Add(Prompt(ComputedPrompts::kMaxBytes / 2));
  EXPECT_TRUE(prompts.Take());
  EXPECT_FALSE(prompts.Take());
}

}  // namespace
}  // namespace gateway
