#include "gateway/batches/message_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/batches/result_files.h"
#include "tests/support/temp_dir.h"

namespace gateway::batches {
namespace {

using nlohmann::json;

const LineResult kAnswered{
    .custom_id = "a",
    .status = 200,
    .body = "{\"type\":\"message\",\n\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}"};
const LineResult kRefused{
    .custom_id = "b",
    .status = 400,
    .body = R"({"type":"error","error":{"type":"invalid_request_error","message":"no"}})"};
const LineResult kUnread{.custom_id = "c", .status = 502, .body = "<html>"};
const LineResult kLost{.custom_id = "d", .code = "key_revoked", .message = "gone"};
const LineResult kCancelled{.custom_id = "e", .code = std::string(kCodeCancelled)};
const LineResult kExpired{.custom_id = "f", .code = std::string(kCodeExpired)};

TEST(MessageBatch, AResultHasAnthropicsForm) {
  const json answered = json::parse(RenderMessageResult(kAnswered));
  EXPECT_EQ(answered["custom_id"], "a");
  EXPECT_EQ(answered["result"]["type"], "succeeded");
  EXPECT_EQ(answered["result"]["message"]["usage"]["output_tokens"], 2);
  EXPECT_EQ(json::parse(RenderMessageResult(kRefused))["result"]["error"]["error"]["message"], "no");
  for (const LineResult& errored : {kRefused, kUnread, kLost}) {
    const json result = json::parse(RenderMessageResult(errored))["result"];
    EXPECT_EQ(result["type"], "errored");
    EXPECT_EQ(result["error"]["type"], "error");
    EXPECT_TRUE(result["error"]["error"]["type"].is_string());
  }
  EXPECT_EQ(json::parse(RenderMessageResult(kLost))["result"]["error"]["error"]["type"],
            "authentication_error");
  EXPECT_EQ(json::parse(RenderMessageResult(kCancelled))["result"], json({{"type", "canceled"}}));
  EXPECT_EQ(json::parse(RenderMessageResult(kExpired))["result"], json({{"type", "expired"}}));
}

TEST(MessageBatch, ItsResultsAreInOneFileAndAreFoundAgain) {
  const tests::TempDir dir;
  {
    ResultFiles files(dir / "out", dir / "err", true);
    ASSERT_TRUE(files.Open().ok());
    ASSERT_TRUE(files.Append(std::vector{kAnswered, kRefused, kCancelled}).ok());
    EXPECT_EQ(files.error_bytes(), 0u);
  }
  ResultFiles files(dir / "out", dir / "err", true);
  const auto done = files.Open();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(done->custom_ids, testing::UnorderedElementsAre("a", "b", "e"));
  EXPECT_EQ(done->progress.completed, 1u);
  EXPECT_EQ(done->progress.failed, 2u);
  EXPECT_EQ(done->progress.unsent, 1u);
  EXPECT_EQ(done->progress.usage.output, 2u);
}

TEST(MessageBatch, CountsAddUpInEveryState) {
  Batch batch{.id = "msgbatch_1",
              .endpoint = std::string(kMessagesUrl),
              .output_file = "file-1",
              .state = BatchState::kInProgress,
              .counts = {.total = 10, .completed = 4, .failed = 3, .unsent = 2}};
  EXPECT_TRUE(batch.of_messages());
  const auto sum = [](const nlohmann::ordered_json& counts) {
    uint64_t sum = 0;
    for (const auto& [name, count] : counts.items()) sum += count.get<uint64_t>();
    return sum;
  };
  nlohmann::ordered_json shown = ShowMessageBatch(batch);
  EXPECT_EQ(shown["processing_status"], "in_progress");
  EXPECT_TRUE(shown["results_url"].is_null());
  EXPECT_EQ(sum(shown["request_counts"]), 10u);
  batch.state = BatchState::kExpired;
  batch.counts.failed = 6;
  shown = ShowMessageBatch(batch);
  EXPECT_EQ(shown["processing_status"], "ended");
  EXPECT_EQ(shown["results_url"], "/v1/messages/batches/msgbatch_1/results");
  EXPECT_EQ(shown["request_counts"]["expired"], 2);
  EXPECT_EQ(shown["request_counts"]["errored"], 4);
  EXPECT_EQ(sum(shown["request_counts"]), 10u);
}

}  // namespace
}  // namespace gateway::batches
