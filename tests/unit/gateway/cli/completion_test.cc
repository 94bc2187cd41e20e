#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What a command prints.
std::string OutputOf(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return text;
  char chunk[4096];
  for (size_t n = 0; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) text.append(chunk, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

class Bash {
 public:
  Bash() {
    const tests::CliResult made = tests::RunCli({"completion", "bash"});
    EXPECT_EQ(made.code, 0) << made.err;
    std::ofstream(script_) << made.out;
  }
  const std::string& script() const { return script_; }

  // What is offered at the end of a command line, whose words are given as an array of bash.
  std::string Complete(const std::string& words) const {
    std::ofstream(driver_) << "source " << script_ << "\nCOMP_WORDS=(" << words
                           << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tidegate\n"
                              "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    return OutputOf("bash " + driver_);
  }

 private:
  tests::TempDir dir_;
  std::string script_ = dir_ / "tidegate.bash";
  std::string driver_ = dir_ / "driver.bash";
};

TEST(Completion, BashLoadsTheScript) {
  const Bash bash;
  EXPECT_EQ(OutputOf("bash -n " + bash.script() + " 2>&1"), "");
}

TEST(Completion, BashOffersCommandsOptionsAndWords) {
  const Bash bash;
  EXPECT_THAT(bash.Complete("tidegate us"), testing::Eq("usage\n"));
  EXPECT_THAT(bash.Complete("tidegate jobs ''"), AllOf(HasSubstr("submit\n"), HasSubstr("logs\n")));
  EXPECT_THAT(bash.Complete("tidegate jobs logs --fo"), testing::Eq("--follow\n"));
  EXPECT_THAT(bash.Complete("tidegate usage --format c"), testing::Eq("csv\n"));
  EXPECT_THAT(bash.Complete("tidegate usage --format = c"), testing::Eq("csv\n"));
  EXPECT_THAT(bash.Complete("tidegate usage --by tenant,mod"), testing::Eq("tenant,model\n"));
  EXPECT_THAT(bash.Complete("tidegate usage --by feedb"), testing::Eq("feedback\n"));
  EXPECT_THAT(bash.Complete("tidegate ''"), AllOf(HasSubstr("serve\n"), Not(HasSubstr("reference"))));
}

TEST(Completion, ZshGetsAScriptOfItsOwn) {
  const tests::CliResult made = tests::RunCli({"completion", "zsh"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(testing::StartsWith("#compdef tidegate\n"), HasSubstr("'tidegate jobs logs'")));
  EXPECT_EQ(tests::RunCli({"completion", "fish"}).code, 2);
}

}  // namespace
