#include "gateway/process/end_deadline.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gateway {
namespace {

TEST(EndDeadlineDeathTest, AProcessThatDoesNotEndIsEndedAndSaysWhatItWaitedFor) {
  EXPECT_EXIT(
      {
        EndDeadline end;
        end.WaitsFor("the shards");
        end.Begin(std::chrono::milliseconds(1));
        while (true) pause();
      },
      testing::ExitedWithCode(1), "did not end in time.*the shards");
}

TEST(EndDeadline, OneThatIsKeptEndsNothing) {
  EndDeadline end;
  end.Begin(std::chrono::hours(1));
}

}  // namespace
}  // namespace gateway
