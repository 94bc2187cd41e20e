// A second gateway beside one that runs: it refuses to start where they would share a port or a state folder,
// and says which process is in the way.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::HasSubstr;

class SecondGateway : public testing::Test {
 protected:
  // How it ends, when it has the first one's configuration but for what is replaced.
  CliResult Start(const std::string& what, const std::string& by) {
    std::string text = ReadFile(first_.config_path());
    const size_t at = text.find(what);
    EXPECT_NE(at, text.npos) << text;
    text.replace(at, what.size(), by);
    std::ofstream(folder_ / "second.yaml") << text;
    return RunCli({"serve", "--config", folder_ / "second.yaml"});
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
  std::ofstream(folder_ / "second.yaml") << text;
  const CliResult second = RunCli({"serve", "--config", folder_ / "second.yaml"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr(listens));
  EXPECT_THAT(second.err, HasSubstr(First()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(first_.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

TEST_F(SecondGateway, OnTheSameStateIsRefusedAndSaysWhoHasIt) {
  const CliResult second = Start("threads: 2", "threads: 1");
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr(first_.state_dir()));
  EXPECT_THAT(second.err, HasSubstr(First()));
  EXPECT_EQ(first_.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

}  // namespace
}  // namespace tests
