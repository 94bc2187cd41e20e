#include "conf/file_problem.h"

#include <gtest/gtest.h>

namespace conf {
namespace {

TEST(FileProblem, NamesThePathOnce) {
  EXPECT_EQ(ToString(FileProblem("a.yaml", "cannot open a.yaml: No such file or directory")),
            "a.yaml: cannot open it: No such file or directory");
  EXPECT_EQ(ToString(FileProblem("a.yaml", "cannot read \"a.yaml\": Is a directory")),
            "a.yaml: cannot read it: Is a directory");
  EXPECT_EQ(ToString(FileProblem("a", "cannot read a: it is not a regular file")),
            "a: cannot read it: it is not a regular file");
  EXPECT_EQ(ToString(FileProblem("", "cannot open : No such file or directory")),
            "\"\": cannot open it: No such file or directory");
}

TEST(FileProblem, KeepsMessageThatDoesNotNameThePath) {
  EXPECT_EQ(ToString(FileProblem("a.yaml", "is in use")), "a.yaml: is in use");
}

}  // namespace
}  // namespace conf
