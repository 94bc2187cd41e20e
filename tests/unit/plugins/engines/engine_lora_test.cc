#include "plugins/engines/engine_lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::engines {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EngineLora, KnowsTheEnginesThatLoadAdaptersAndHowEachIsAsked) {
  const EngineLora* const vllm = FindEngineLora("vllm");
  ASSERT_NE(vllm, nullptr);
  EXPECT_EQ(vllm->load, "/v1/load_lora_adapter");
  const EngineLora* const sglang = FindEngineLora("sglang");
  ASSERT_NE(sglang, nullptr);
  EXPECT_EQ(sglang->unload, "/unload_lora_adapter");
  EXPECT_EQ(FindEngineLora("llamacpp"), nullptr);
  EXPECT_EQ(LoadBody("sql", "/adapters/sql"), R"({"lora_name":"sql","lora_path":"/adapters/sql"})");
  EXPECT_EQ(UnloadBody("sql"), R"({"lora_name":"sql"})");
}

TEST(EngineLora, AModelWithAParentIsAnAdapter) {
  const auto listed = ListedAdapters(
      R"({"object":"list","data":[{"id":"base","parent":null,"root":"Qwen/Qwen3-8B"},)"
      R"({"id":"sql","parent":"base","root":"/adapters/sql"},{"id":"alias"},{"id":7,"parent":"base"}]})");
  ASSERT_TRUE(listed.ok());
  EXPECT_THAT(*listed, ElementsAre("sql"));
  const auto none = ListedAdapters(R"({"data":[]})");
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(*none, IsEmpty());
}

TEST(EngineLora, WhatIsNoListIsSaidToBeNone) {
  for (const char* const body : {"", "[]", "{}", "not found", R"({"data":{}})"})
    EXPECT_TRUE(absl::IsDataLoss(ListedAdapters(body).status())) << body;
}

TEST(EngineLora, ARefusalIsTheEnginesOwnMessageInOneLine) {
  EXPECT_EQ(RefusalIn(404, R"({"error":{"message":"No adapter found\nfor /a","type":"NotFoundError"}})"),
            "it answers 404: No adapter found for /a");
  EXPECT_EQ(RefusalIn(400, R"({"message":"rank too high"})"), "it answers 400: rank too high");
  EXPECT_EQ(RefusalIn(400, R"({"success":false,"error_message":"no room"})"), "it answers 400: no room");
  EXPECT_EQ(RefusalIn(500, ""), "it answers 500");
  EXPECT_LT(RefusalIn(500, std::string(10'000, 'x')).size(), 400u);
}

}  // namespace
}  // namespace plugins::engines
