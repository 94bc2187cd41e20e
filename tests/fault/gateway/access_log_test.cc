// The access log of a running gateway: what a line tells, what it must not tell, rotation, and that a log which cannot be
// written costs no request anything.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "conf/json_parse.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

constexpr std::string_view kPrompt = "what only the engine may read";

struct AccessLines : testing::Test {
  GatewayConfig Config(std::string_view options) const {
    return {.replicas = {engine.port()},
            .sections = fmt::format("telemetry: {{access_log: {{{}}}}}\n", options)};
  }
  std::string path() const { return dir / "access.log"; }
  // The line of the request with this id, once it is written.
  static std::optional<Json> LineOf(const std::string& file, const std::string& request) {
    std::optional<Json> found;
    tests::Within(RawClient::kPatience, [&] {
      std::istringstream lines(ReadFile(file));
      for (std::string line; std::getline(lines, line);) {
        const Json parsed = conf::ParseJson(line);
        if (parsed.is_object() && parsed["request_id"] == request) found = parsed;
      }
      return found.has_value();
    });
    return found;
  }

  TempDir dir;
  EngineProcess engine;
};

TEST_F(AccessLines, ALineHasTheSameFactsAsTheLedgersRecord) {
  const GatewayProcess gateway(Config("file: " + path()));
  const std::string body = Json{{"model", "chat-small"},
                                {"max_tokens", 5},
                                {"ignore_eos", true},
                                {"messages", {{{"role", "user"}, {"content", kPrompt}}}}}
                               .dump();
  const Answer answer =
      gateway.Ask(fmt::format("POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nx-request-id: a\"b\r\n"
                              "content-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
                              body.size(), body));
  ASSERT_EQ(answer.status, 200);
  const std::string id = answer.header("x-request-id");
  const std::optional<Json> line = LineOf(path(), id);
  ASSERT_TRUE(line);
  EXPECT_EQ((*line)["tenant"], "demo");
  EXPECT_EQ((*line)["model"], "chat-small");
  EXPECT_EQ((*line)["status"], 200);
  EXPECT_EQ((*line)["reason"], "length");
  EXPECT_EQ((*line)["client_request_id"], "a\"b");
  const gateway::ledger::Record close = gateway.CloseOf(id);
  EXPECT_EQ((*line)["output_tokens"], close.output);
  EXPECT_EQ((*line)["bytes_in"], close.bytes_in);
  EXPECT_GT((*line)["total_ms"], 0.0);
  EXPECT_THAT(ReadFile(path()), testing::Not(testing::HasSubstr(kPrompt)));
}

TEST_F(AccessLines, RefusalsHaveTheirCode) {
  const GatewayProcess gateway(Config("file: " + path()));
  const Answer answer = gateway.Ask(Chat({{"model", "no-such\nmodel"}}));
  ASSERT_EQ(answer.status, 404);
  const std::optional<Json> line = LineOf(path(), answer.header("x-request-id"));
  ASSERT_TRUE(line);
  EXPECT_EQ((*line)["code"], answer.code());
  EXPECT_EQ((*line)["model"], "no-such\nmodel");
}

TEST_F(AccessLines, SighupReopensARotatedFile) {
  GatewayProcess gateway(Config("file: " + path()));
  const std::string first = gateway.Ask(Chat({{"max_tokens", 1}})).header("x-request-id");
  ASSERT_TRUE(LineOf(path(), first));
  std::filesystem::rename(path(), path() + ".1");
  gateway.Reload();
  const std::string second = gateway.Ask(Chat({{"max_tokens", 1}})).header("x-request-id");
  EXPECT_TRUE(LineOf(path(), second));
  EXPECT_TRUE(LineOf(path() + ".1", first));
}

TEST_F(AccessLines, AFileThatCannotBeWrittenCostsNoRequest) {
  const GatewayProcess gateway(Config("file: " + (dir / "missing/access.log")));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric("tidegate_access_log_dropped_total{why=\"write\"}") >= 5.0;
  }));
}

TEST_F(AccessLines, NothingIsLoggedUnlessAskedFor) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_EQ(gateway.Metric("tidegate_access_log_lines_total"), 0.0);
}

}  // namespace
}  // namespace tests
