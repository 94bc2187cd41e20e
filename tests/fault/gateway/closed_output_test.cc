// Commands whose output is closed, full or gone: no file takes what they print, each ends with its exit code
// and a message, and a secret that nobody saw is not valid.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/engine_process.h"
#include "tests/support/free_port.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using testing::HasSubstr;
using testing::Not;

class ClosedOutput : public testing::Test {
 protected:
  struct Result {
    int code = 0;
    std::string err;
  };
  // Of a shell's line, in which TIDEGATE stands for the program and CONFIG for the configuration.
  Result Shell(std::string line) const {
    const auto replace = [&](const std::string& what, const std::string& by) {
      for (size_t at = 0; (at = line.find(what, at)) != line.npos; at += by.size())
        line.replace(at, what.size(), by);
    };
    replace("TIDEGATE", TIDEGATE_BINARY);
    replace("CONFIG", gateway_.config_path());
    const std::string err = folder_ / "err";
    const int status =
        std::system(fmt::format("( {} ) 2>{}", line, err).c_str());  // NOLINT: a test's own line
    return {WEXITSTATUS(status), ReadFile(err)};
  }
  Json Keys() const {
    EXPECT_EQ(Shell(fmt::format("TIDEGATE keys list --config CONFIG --json >{}", folder_ / "keys")).code, 0);
    return Json::parse(ReadFile(folder_ / "keys"));
  }

  TempDir folder_;
  const EngineProcess engine_;
  GatewayProcess gateway_{{.replicas = {engine_.port()}}};
};

TEST_F(ClosedOutput, ASecretIsWrittenIntoNoFileAndIsNotValid) {
  int made = 0;
  for (const std::string out : {">&-", ">/dev/full", "| true"}) {
    // A pipe's reader ends first.
    const std::string command = out == "| true"
                                    ? "{ sleep 0.3; TIDEGATE keys create --config CONFIG --tenant demo; "
                                      "echo $? >&2; } | true"
                                    : "TIDEGATE keys create --config CONFIG --tenant demo " + out;
    const Result result = Shell(command);
    if (out != "| true") EXPECT_EQ(result.code, 1) << out;
    EXPECT_THAT(result.err, HasSubstr("the output cannot be written")) << out;
    EXPECT_THAT(result.err, HasSubstr("is revoked, because its secret could not be shown")) << out;
    const Json keys = Keys();
    EXPECT_EQ(keys.size(), static_cast<size_t>(++made));
    for (const Json& key : keys) EXPECT_EQ(key["state"], "revoked") << out;
  }
  EXPECT_EQ(std::system(fmt::format("grep -rqa 'sk-' {}/state.db*", gateway_.state_dir()).c_str()) == 0,
            false);
  gateway_.Restart();
  EXPECT_EQ(gateway_.Ask(Get("/v1/models")).status, 200);
}

TEST_F(ClosedOutput, EveryCommandSaysThatItsOutputCannotBeWritten) {
  for (const std::string command : {"keys list --config CONFIG", "keys list --config CONFIG --json",
                                    "version", "reference errors", "--help", "keys create --help"}) {
    for (const std::string out : {">&-", ">/dev/full"}) {
      const Result result = Shell(fmt::format("TIDEGATE {} {}", command, out));
      EXPECT_EQ(result.code, 1) << command << out;
      EXPECT_THAT(result.err, HasSubstr("the output cannot be written")) << command << out;
      EXPECT_THAT(result.err, Not(HasSubstr("terminate"))) << command << out;
    }
  }
}

TEST_F(ClosedOutput, EveryCommandTellsTheReasonOnce) {
  for (const std::string command :
       {"keys create --config CONFIG --tenant demo", "audit export --config CONFIG",
        "audit export --config CONFIG --format csv", "audit verify --config CONFIG",
        "audit tail --config CONFIG --last 5", "statement demo 2026-01 --config CONFIG",
        "usage --config CONFIG"}) {
    const Result full = Shell(fmt::format("TIDEGATE {} >/dev/full", command));
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_THAT(full.err,
                testing::EndsWith("tidegate: the output cannot be written: No space left on device\n"))
        << command;
    EXPECT_EQ(full.err.find("cannot be written"), full.err.rfind("cannot be written")) << full.err;
    EXPECT_THAT(full.err, Not(HasSubstr("standard output"))) << command;
    const Result closed = Shell(fmt::format("TIDEGATE {} >&-", command));
    EXPECT_EQ(closed.code, 1) << command;
    EXPECT_THAT(closed.err,
                testing::EndsWith("tidegate: the output cannot be written: Bad file descriptor\n"))
        << command;
  }
}

TEST_F(ClosedOutput, AWrongCommandLineIsReportedWhereverItsOutputGoes) {
  const Result result = Shell("TIDEGATE keys creat >/dev/full");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("keys has no command \"creat\""));
}

TEST(ClosedOutputOfJobs, TheirListSaysThatItCannotBeWritten) {
  const Scaled scaled{ScaledModel{}};
  const TempDir folder;
  std::ofstream(folder / "key") << kScalingAdminKey << "\n";
  const std::string list = fmt::format("{} jobs list --admin http://127.0.0.1:{} --key-file {}",
                                       TIDEGATE_BINARY, scaled.gateway.admin_port(), folder / "key");
  const auto run = [](const std::string& line) {
    return WEXITSTATUS(std::system(line.c_str()));  // NOLINT: a test's own line
  };
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return run(list + " >/dev/null 2>&1") == 0; }));
  EXPECT_EQ(run(fmt::format("{} >/dev/full 2>{}", list, folder / "err")), 1);
  EXPECT_THAT(ReadFile(folder / "err"), HasSubstr("the output cannot be written: No space left on device"));
}

TEST(ClosedOutputOfServe, AGatewayWithoutDescriptorsZeroToTwoServesAndGivesThemToNoFile) {
  const EngineProcess engine;
  const FreePort port;
  GatewayProcess gateway({.replicas = {engine.port()}, .port = port.number()});
  ASSERT_EQ(gateway.Stop(), 0);
  const TempDir folder;
  ChildProcess closed(
      {"/bin/sh", "-c",
       fmt::format("exec {} serve --config {} <&- >&- 2>&-", TIDEGATE_BINARY, gateway.config_path())},
      folder / "out");
  ASSERT_TRUE(Within(RawClient::kPatience, [&] {
    RawClient client(port.number());
    return client.connected() && client.Ask(Get("/v1/models")).status == 200;
  }));
  for (const int fd : {0, 1, 2}) {
    std::error_code hidden;  // to who is not root, for the gateway is not dumpable
    const auto file = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", closed.pid(), fd), hidden);
    if (!hidden) EXPECT_EQ(file, "/dev/null") << fd;
  }
  closed.Signal(SIGTERM);
  EXPECT_EQ(closed.Wait(RawClient::kPatience), 0);
}

}  // namespace
}  // namespace tests
