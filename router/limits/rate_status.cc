#include "router/limits/rate_status.h"

#include <fmt/compile.h>

#include <algorithm>
#include <chrono>
#include <mutex>

namespace router::limits {

RateStatus Rates(const NodeRef& node, ModelRef model, conf::TimePoint now) {
  RateStatus status;
  const std::scoped_lock lock(node->root->lock);
  if (!node->plans) return status;
  const Moment& moment = node->root->Advance(now);
  for (Limit* limit : node->plans->For(model).limits) {
    if (ShapeOf(limit->dimension()) != Shape::kWindow) continue;
    auto& tightest = limit->dimension() == Dimension::kRequests ? status.requests : status.tokens;
    const int64_t remaining = std::max<int64_t>(limit->Room(moment), 0);
    if (tightest && tightest->remaining <= remaining) continue;
    tightest = {limit->Capacity(), remaining, limit->UntilReset(moment)};
  }
  return status;
}

std::string FormatReset(conf::Duration reset) {
  using std::chrono::milliseconds;
  const int64_t ms = std::max<int64_t>(std::chrono::ceil<milliseconds>(reset).count(), 0);
  if (ms == 0) return "0s";
  if (ms < 1000) return fmt::format(FMT_COMPILE("{}ms"), ms);
  const int64_t minutes = ms / 60'000;
  const int64_t below_minute = ms % 60'000;
  std::string seconds = fmt::format(FMT_COMPILE("{}"), below_minute / 1000);
  if (below_minute % 1000 != 0) {
    seconds += fmt::format(FMT_COMPILE(".{:03}"), below_minute % 1000);
    seconds.erase(seconds.find_last_not_of('0') + 1);
  }
  if (minutes == 0) return seconds + "s";
  if (minutes < 60) return fmt::format(FMT_COMPILE("{}m{}s"), minutes, seconds);
  return fmt::format("{}h{}m{}s", minutes / 60, minutes % 60, seconds);
}

}  // namespace router::limits
