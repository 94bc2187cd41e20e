#include "router/limits/rate_status.h"

#include <algorithm>
#include <charconv>
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
    const int64_t remaining = std::max<int64_t>(limit->Remaining(moment), 0);
    if (tightest && tightest->remaining <= remaining) continue;
    tightest = {limit->Capacity(), remaining, limit->UntilReset(moment)};
  }
  return status;
}

std::string_view FormatReset(conf::Duration reset, ResetText& text) {
  using std::chrono::milliseconds;
  const int64_t ms = std::max<int64_t>(std::chrono::ceil<milliseconds>(reset).count(), 0);
  char* at = text.data();
  const auto number = [&](int64_t value) { at = std::to_chars(at, text.data() + text.size(), value).ptr; };
  if (ms > 0 && ms < 1000) {
    number(ms);
    *at++ = 'm';
  } else {
    const int64_t minutes = ms / 60'000;
    if (minutes >= 60) number(minutes / 60), *at++ = 'h';
    if (minutes > 0) number(minutes % 60), *at++ = 'm';
    number(ms % 60'000 / 1000);
    if (int64_t rest = ms % 1000; rest > 0) {
      *at++ = '.';
      for (int64_t unit = 100; rest > 0; rest %= unit, unit /= 10)
        *at++ = static_cast<char>('0' + rest / unit);
    }
  }
  *at++ = 's';
  return {text.data(), static_cast<size_t>(at - text.data())};
}

}  // namespace router::limits
