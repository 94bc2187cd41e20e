// Which calls are made again, and when: what applications' SDKs do.
#include "bench/client/retries.h"

#include <gtest/gtest.h>

namespace bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Answer Ended(Ending ending) {
  Answer answer;
  answer.ending = ending;
  return answer;
}

Answer Refused(int status) {
  Answer answer = Ended(Ending::kRefused);
  answer.status = status;
  return answer;
}

TEST(Retries, AreOfLostConnectionsAndOfWhatMayPass) {
  scheduler::Rng rng(1);
  for (const int status : {408, 409, 429, 500, 502, 503}) EXPECT_TRUE(RetryAfter(Refused(status), 1, rng));
  for (const int status : {400, 401, 404, 422}) EXPECT_FALSE(RetryAfter(Refused(status), 1, rng));
  EXPECT_TRUE(RetryAfter(Ended(Ending::kNotReached), 1, rng));
  for (const Ending ending : {Ending::kDone, Ending::kCut, Ending::kUnclean, Ending::kFailed})
    EXPECT_FALSE(RetryAfter(Ended(ending), 1, rng)) << Name(ending);
}

TEST(Retries, ObeyTheServer) {
  scheduler::Rng rng(1);
  Answer full = Refused(429);
  full.should_retry = false;
  EXPECT_FALSE(RetryAfter(full, 1, rng));
  full.should_retry = true;
  full.retry_after = seconds(3);
  EXPECT_EQ(RetryAfter(full, 1, rng), seconds(3));
  full.retry_after = seconds(3600);
  EXPECT_LE(*RetryAfter(full, 1, rng), milliseconds(500)) << "nobody waits for an hour";
}

TEST(Retries, BackOffUpToEightSeconds) {
  scheduler::Rng rng(1);
  for (const auto& [tries, most] : {std::pair<uint32_t, int>{1, 500}, {2, 1000}, {4, 4000}, {9, 8000}}) {
    const conf::Duration wait = *RetryAfter(Ended(Ending::kNotReached), tries, rng);
    EXPECT_LE(wait, milliseconds(most)) << tries;
    EXPECT_GE(wait, milliseconds(most * 3 / 4)) << tries;
  }
}

}  // namespace
}  // namespace bench
