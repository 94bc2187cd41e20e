#include "plugins/engines/engine_sleep.h"

#include <gtest/gtest.h>

namespace plugins::engines {
namespace {

TEST(EngineSleep, KnowsTheEnginesThatSleepAndHowEachWakes) {
  const EngineSleep* const vllm = FindEngineSleep("vllm");
  ASSERT_NE(vllm, nullptr);
  EXPECT_EQ(vllm->light.front().query, "level=1");
  EXPECT_EQ(vllm->deep.front().query, "level=2");
  ASSERT_EQ(vllm->wake_deep.size(), 3u) << "memory for weights, the weights, then the cache";
  EXPECT_EQ(vllm->wake_deep[1].path, "/collective_rpc");
  const EngineSleep* const sglang = FindEngineSleep("sglang");
  ASSERT_NE(sglang, nullptr);
  EXPECT_TRUE(sglang->deep.empty()) << "it cannot discard its weights";
  EXPECT_EQ(FindEngineSleep("llamacpp"), nullptr);
}

}  // namespace
}  // namespace plugins::engines
