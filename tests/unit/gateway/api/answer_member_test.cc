#include "gateway/api/answer_member.h"

#include <gtest/gtest.h>

namespace gateway::api {
namespace {

std::string Find(std::string_view json, std::string_view key = "model") {
  const auto range = FindAnswerMember(json, key);
  return range ? std::string(range->In(json)) : "none";
}

TEST(AnswerMember, IsOneOfTheDocumentOrOfTheAnswerInAnEvent) {
  EXPECT_EQ(Find(R"({"id":"x","model" : "a","choices":[]})"), R"("a")");
  EXPECT_EQ(Find(R"({"type":"response.created","response":{"id":"r","model":"b"}})"), R"("b")");
  EXPECT_EQ(Find(R"({"type":"message_start","message":{"model":"c"}})"), R"("c")");
  EXPECT_EQ(Find(R"({"response":{"id":"resp_1"}})", "id"), R"("resp_1")");
  EXPECT_EQ(Find(R"({"content":[{"input":{"model":"/x"}}],"model":"d"})"), R"("d")");
  EXPECT_EQ(Find(R"({"text":"\"model\":\"/x\"","model":"e"})"), R"("e")");
  EXPECT_EQ(Find(R"({"input":{"model":"/x"}})"), "none");
  EXPECT_EQ(Find(R"({"choices":[{"message":{"model":"/x"}}]})"), "none");
  EXPECT_EQ(Find(R"({"model":{"name":"x"}})"), "none");
  EXPECT_EQ(Find(R"({"model":"cut)"), "none");
  EXPECT_EQ(Find(""), "none");
}

TEST(AnswerMember, KnowsAPathOfTheEnginesMachineFromAName) {
  for (const char* path : {"/models/llama", "./x.gguf", "../x", "~/x", R"(C:\\models)", "d:/x",
                           R"(\\\\host\\x)", R"(\/models\/x)", "file:///x"})
    EXPECT_TRUE(IsLocalPath(path)) << path;
  for (const char* name : {"chat-small", "meta-llama/Llama-3", "gpt-4o", "", "a:b", "x/y/z.gguf"})
    EXPECT_FALSE(IsLocalPath(name)) << name;
}

TEST(PublicModelName, ReplacesLocalPathsOnly) {
  std::string changed;
  EXPECT_EQ(PublicModelName("chat").InDocument(R"({"model":"/models/x","n":1})", changed),
            R"({"model":"chat","n":1})");
  EXPECT_EQ(PublicModelName("chat").InDocument(R"({"model":"org/x"})", changed), R"({"model":"org/x"})");
}

TEST(PublicModelName, ReplacesThemInEveryEventAndTouchesNothingElse) {
  PublicModelName name("chat");
  std::string changed;
  EXPECT_EQ(name.InEvents(": hello\n\ndata: {\"model\":\"/m\",\"a\":1}\n\ndata:{\"model\":\"/m\"}\r\n\r\n",
                          changed),
            ": hello\n\ndata: {\"model\":\"chat\",\"a\":1}\n\ndata:{\"model\":\"chat\"}\r\n\r\n");
  EXPECT_EQ(name.InEvents("data: {\"usage\":{}}\n\ndata: {\"model\":\"/m\"}\n\ndata: [DONE]\n\n", changed),
            "data: {\"usage\":{}}\n\ndata: {\"model\":\"chat\"}\n\ndata: [DONE]\n\n");
  // An engine that reports a name is not looked at again.
  PublicModelName kept("chat");
  EXPECT_EQ(kept.InEvents("data: {\"model\":\"m\"}\n\n", changed), "data: {\"model\":\"m\"}\n\n");
  EXPECT_EQ(kept.InEvents("data: {\"model\":\"/m\"}\n\n", changed), "data: {\"model\":\"/m\"}\n\n");
}

}  // namespace
}  // namespace gateway::api
