#include "bench/client/retries.h"

#include <algorithm>

namespace bench {
namespace {

constexpr conf::Duration kFirst = std::chrono::milliseconds(500);
constexpr conf::Duration kMost = std::chrono::seconds(8);
constexpr conf::Duration kMostObeyed = std::chrono::seconds(60);

bool MayHelp(const Answer& answer) {
  if (answer.ending == Ending::kNotReached) return true;
  if (answer.ending != Ending::kRefused) return false;
  if (answer.should_retry) return *answer.should_retry;
  return answer.status == 408 || answer.status == 409 || answer.status == 429 || answer.status >= 500;
}

}  // namespace

std::optional<conf::Duration> RetryAfter(const Answer& answer, uint32_t tries, scheduler::Rng& rng) {
  if (!MayHelp(answer)) return std::nullopt;
  if (answer.retry_after && *answer.retry_after <= kMostObeyed) return answer.retry_after;
  const conf::Duration wait = std::min(kFirst * (1u << std::min(std::max(tries, 1u) - 1, 4u)), kMost);
  return wait - conf::Duration(static_cast<int64_t>(rng.Uniform(static_cast<uint64_t>(wait.count() / 4))));
}

}  // namespace bench
