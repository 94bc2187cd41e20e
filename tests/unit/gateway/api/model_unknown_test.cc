#include <gtest/gtest.h>

#include "gateway/api/chat.h"

namespace gateway::api {
namespace {

TEST(SaysModelUnknown, BelievesACodeAndNoText) {
  for (
      const char* body :
      {R"({"error":{"message":"x","code":"model_not_found"}})",
       R"({"object":"error","message":"The model `a-lora` does not exist.","type":"NotFoundError","code":404})",
       R"({"error":{"message":"x","type":"NotFoundError","param":"model","code":404}})"})
    EXPECT_TRUE(SaysModelUnknown(body, "a-lora")) << body;
  for (const char* body :
       {R"({"error":{"message":"the model a-lora is not here","code":404}})",
        R"({"detail":"model not found"})",
        R"({"error":{"message":"The model `a-lora` does not exist.","type":"invalid_request_error"}})",
        R"({"error":{"message":"The model `other` does not exist.","type":"NotFoundError","code":404}})",
        "model not found", ""})
    EXPECT_FALSE(SaysModelUnknown(body, "a-lora")) << body;
}

}  // namespace
}  // namespace gateway::api
