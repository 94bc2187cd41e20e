#include "gateway/request/serve/prefill_answer.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

TEST(PrefillAnswer, ReturnsTheParametersUnchanged) {
  const std::string body =
      R"({"id":"x","choices":[{"message":{"content":"\"kv_transfer_params\":{}"}}],)"
      R"("usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}},)"
      R"("kv_transfer_params": {"do_remote_prefill":true,"remote_block_ids":[1, 2]} })";
  const auto answer = ReadPrefillAnswer(body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->params, R"({"do_remote_prefill":true,"remote_block_ids":[1, 2]})");
  ASSERT_TRUE(answer->usage);
  EXPECT_EQ(answer->usage->input, 9u);
  EXPECT_EQ(answer->usage->cached_input, 4u);
}

TEST(PrefillAnswer, HasNoParametersWhenTheyAreMissing) {
  for (const char* body : {"{}", R"({"kv_transfer_params":null})", R"({"kv_transfer_params":"x"})",
                           R"({"a":{"kv_transfer_params":{}}})"}) {
    const auto answer = ReadPrefillAnswer(body);
    ASSERT_TRUE(answer) << body;
    EXPECT_TRUE(answer->params.empty()) << body;
    EXPECT_FALSE(answer->usage) << body;
  }
}

TEST(PrefillAnswer, IsNoneWhenTheBodyIsNotOneObject) {
  for (const char* body : {"", "[]", "null", "{", R"({"kv_transfer_params":{"a":1})", R"({"a":1}{})",
                           R"({"kv_transfer_params":{"a":}})", R"({"a":1,})"}) {
    EXPECT_FALSE(ReadPrefillAnswer(body)) << body;
  }
}

}  // namespace
}  // namespace gateway
