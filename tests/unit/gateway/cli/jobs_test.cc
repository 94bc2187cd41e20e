// tidegate jobs, nodes, queues: their messages without a gateway, and for one that was not reached.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliJobs : public testing::Test {
 protected:
  std::string File(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  TempDir folder_;
};

TEST_F(CliJobs, AFileIsCheckedWithoutAGateway) {
  const std::string good = File("good.yaml", "name: a\ncommand: [x]\nsecret_env: {T: env:NOT_SET_HERE}\n");
  EXPECT_EQ(RunCli({"jobs", "submit", good, "--check"}).code, 0);
  const std::string bad = File("bad.yaml", "name: A\ncommand: [x]\nmembrs: 2\n");
  for (const bool check : {true, false}) {
    std::vector<std::string> args = {"jobs", "submit", bad};
    if (check) args.emplace_back("--check");
    const CliResult refused = RunCli(args);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("bad.yaml:/name"), HasSubstr("did you mean \"members\"?")));
  }
  const CliResult none = RunCli({"jobs", "submit", folder_ / "none.yaml", "--check"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("none.yaml: cannot open it: No such file or directory"));

  const CliResult as_json = RunCli({"jobs", "submit", good, "--check", "--json"});
  EXPECT_EQ(as_json.code, 0);
  EXPECT_EQ(as_json.out, "{\"valid\":true,\"name\":\"a\"}\n");
  const CliResult none_as_json = RunCli({"jobs", "submit", folder_ / "none.yaml", "--check", "--json"});
  EXPECT_EQ(none_as_json.code, 2);
  EXPECT_THAT(none_as_json.out, HasSubstr("\"message\": \"cannot open it: No such file or directory\""));
}

TEST_F(CliJobs, NamesWhatIsMissingAndShowsNoKey) {
  const std::string key = File("key", "tg-secretsecret\n");
  const std::vector<std::string> nobody = {"--admin", "http://127.0.0.1:1", "--key-file", key};
  for (const std::vector<std::string>& words : {std::vector<std::string>{"jobs", "list"},
                                                {"jobs", "explain", "a-1"},
                                                {"jobs", "cancel", "a-1"},
                                                {"nodes"},
                                                {"nodes", "drain", "node-7"},
                                                {"models"},
                                                {"models", "pause", "chat-small"},
                                                {"queues"}}) {
    std::vector<std::string> args = words;
    args.insert(args.end(), nobody.begin(), nobody.end());
    const CliResult refused = RunCli(args);
    EXPECT_EQ(refused.code, 1) << words.front();
    EXPECT_THAT(refused.err, AllOf(HasSubstr("127.0.0.1:1 does not answer"), Not(HasSubstr("secretsecret"))));
  }
  const CliResult no_key =
      RunCli({"nodes", "--admin", "http://127.0.0.1:1", "--key-file", File("empty", "\n")});
  EXPECT_EQ(no_key.code, 2);
  EXPECT_THAT(no_key.err, HasSubstr("TIDEGATE_ADMIN_KEY"));
  EXPECT_EQ(RunCli({"nodes", "--admin", "nowhere", "--key-file", key}).code, 2);
  EXPECT_EQ(RunCli({"jobs"}).code, 2);
}

}  // namespace
}  // namespace tests
