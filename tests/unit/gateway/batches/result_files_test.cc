#include "gateway/batches/result_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace gateway::batches {
namespace {

LineResult Answered(std::string custom_id, int status = 200) {
  return {.custom_id = std::move(custom_id),
          .status = status,
          .request_id = "req_1",
          .body = "{\n  \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 2}\n}"};
}

TEST(ResultFiles, AResultIsOneLineInOpenAisForm) {
  const std::string text = RenderResult(Answered("a\"b"), "batch_req_1");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const nlohmann::json line = nlohmann::json::parse(text);
  EXPECT_EQ(line["custom_id"], "a\"b");
  EXPECT_EQ(line["response"]["status_code"], 200);
  EXPECT_EQ(line["response"]["body"]["usage"]["prompt_tokens"], 3);
  EXPECT_TRUE(line["error"].is_null());
  LineResult none{.custom_id = "c", .code = "batch_expired", .message = "too late"};
  const nlohmann::json failed = nlohmann::json::parse(RenderResult(none, "batch_req_2"));
  EXPECT_TRUE(failed["response"].is_null());
  EXPECT_EQ(failed["error"]["code"], "batch_expired");
  LineResult page = Answered("d", 502);
  page.body = "<html>\n\"";
  EXPECT_EQ(nlohmann::json::parse(RenderResult(page, "x"))["response"]["body"], "<html>\n\"");
}

TEST(ResultFiles, WhatWasWrittenIsFoundAgainAndATornTailIsCut) {
  const tests::TempDir dir;
  {
    ResultFiles files(dir / "out", dir / "err");
    ASSERT_TRUE(files.Open().ok());
    const auto progress = files.Append(std::vector{Answered("a"), Answered("b", 400), Answered("c")});
    ASSERT_TRUE(progress.ok()) << progress.status();
    EXPECT_EQ(progress->completed, 2u);
    EXPECT_EQ(progress->failed, 1u);
  }
  std::ofstream(dir / "out", std::ios::app) << R"({"id":"x","custom_id":"d","respon)";
  std::ofstream(dir / "err", std::ios::app) << std::string(100, '\0') << "\n";
  ResultFiles files(dir / "out", dir / "err");
  const auto done = files.Open();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(done->custom_ids, testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(done->progress.completed, 2u);
  EXPECT_EQ(done->progress.failed, 1u);
  EXPECT_EQ(done->progress.usage.input, 6u);
  EXPECT_EQ(done->progress.usage.output, 4u);
  ASSERT_TRUE(files.Append(std::vector{Answered("d")}).ok());
  const std::string text = tests::ReadFile(dir / "out");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(files.output_bytes(), text.size());
}

TEST(ResultFiles, EmptyOnesAreRemoved) {
  const tests::TempDir dir;
  ResultFiles files(dir / "out", dir / "err");
  ASSERT_TRUE(files.Open().ok());
  ASSERT_TRUE(files.Append(std::vector{Answered("a")}).ok());
  ASSERT_TRUE(files.RemoveEmpty().ok());
  EXPECT_TRUE(std::filesystem::exists(dir / "out"));
  EXPECT_FALSE(std::filesystem::exists(dir / "err"));
}

}  // namespace
}  // namespace gateway::batches
