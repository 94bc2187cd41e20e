// A second gateway beside one that runs: it refuses to start where they would share a port or a state folder,
// and says which process is in the way.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <optional>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using testing::HasSubstr;

class SecondGateway : public testing::Test {
 protected:
  struct Result {
    std::optional<int> code;
    std::string output;
  };
  // How it ends, when its configuration is that.
  Result Start(const std::string& config) {
    std::ofstream(folder_ / "second.yaml") << config;
    ChildProcess second({TIDEGATE_BINARY, "serve", "--config", folder_ / "second.yaml"},
                        folder_ / "second.log");
    const std::optional<int> code = second.Wait(RawClient::kPatience);
    return {code ? std::optional(WEXITSTATUS(*code)) : std::nullopt, second.Output()};
  }
  std::string First() { return fmt::format("process {} (tidegate)", first_.process().pid()); }

  const EngineProcess engine_;
  TempDir folder_;
  GatewayProcess first_{{.replicas = {engine_.port()}}};
};

TEST_F(SecondGateway, OnTheSamePortIsRefusedAndSaysWhoHasIt) {
  const std::string listens = fmt::format("127.0.0.1:{}", first_.port());
  std::string text = ReadFile(first_.config_path());
  text.replace(text.find("listen: 127.0.0.1:0"), 19, "listen: " + listens);
  text.replace(text.find(first_.state_dir()), first_.state_dir().size(), folder_ / "state");
  const Result second = Start(text);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr(listens));
  EXPECT_THAT(second.output, HasSubstr(First()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(first_.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

TEST_F(SecondGateway, OnTheSameStateIsRefusedAndSaysWhoHasIt) {
  const Result second = Start(ReadFile(first_.config_path()));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr(first_.state_dir()));
  EXPECT_THAT(second.output, HasSubstr(First()));
  EXPECT_EQ(first_.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

}  // namespace
}  // namespace tests
