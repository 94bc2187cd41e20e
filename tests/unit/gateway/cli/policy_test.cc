#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CliPolicy, APolicyOfThePlannerIsToldFromThatOfAModel) {
  const tests::TempDir dir;
  std::ofstream(dir / "planner.yaml") << "order: [{name: age, weight: 1}]\nbackfill: {kind: fifo}\n";
  const tests::CliResult refused = tests::RunCli({"policy", "check", dir / "planner.yaml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("planner.yaml: is a policy of the planner, not of a model"));
  EXPECT_THAT(refused.err, Not(HasSubstr("unknown key")));

  std::ofstream(dir / "model.yaml") << "order: [1]\nmodel: a\n";
  EXPECT_THAT(tests::RunCli({"policy", "check", dir / "model.yaml"}).err, HasSubstr("unknown key \"order\""));
  EXPECT_THAT(tests::RunCli({"policy", "check", dir / "none.yaml"}).err,
              HasSubstr("none.yaml: cannot open it: No such file or directory"));
}

}  // namespace
