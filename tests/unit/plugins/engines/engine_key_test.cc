#include "plugins/engines/engine_key.h"

#include <gtest/gtest.h>

namespace plugins::engines {
namespace {

TEST(EngineKey, KnowsWhereEachEngineReadsItsKeyAndWhereItDemandsIt) {
  EXPECT_EQ(FindEngineKey("vllm")->variable, "VLLM_API_KEY");
  EXPECT_EQ(FindEngineKey("llamacpp")->variable, "LLAMA_API_KEY");
  EXPECT_EQ(FindEngineKey("llamacpp")->path, "/props") << "its list of models is open to everybody";
  EXPECT_EQ(FindEngineKey("tgi")->variable, "API_KEY");
  EXPECT_EQ(FindEngineKey("sglang")->variable, "") << "it reads none from its environment";
  EXPECT_EQ(FindEngineKey("trtllm"), nullptr);
  EXPECT_EQ(FindEngineKey("openai"), nullptr);
}

}  // namespace
}  // namespace plugins::engines
