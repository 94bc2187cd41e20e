#include "router/limits/price.h"

#include <algorithm>
#include <cmath>

namespace router::limits {
namespace {

using Wide = __int128;
constexpr Wide kPerPrice = 1'000'000;  // a price is for this many tokens

int64_t NonNegative(int64_t v) {
  return std::max<int64_t>(v, 0);
}

}  // namespace

Usage Sane(Usage usage) {
  usage.input = std::clamp<int64_t>(usage.input, 0, kMaxTokens);
  usage.cached_input = std::clamp<int64_t>(usage.cached_input, 0, usage.input);
  usage.output = std::clamp<int64_t>(usage.output, 0, kMaxTokens);
  return usage;
}

int64_t Price::Cost(const Usage& raw) const {
  const Usage usage = Sane(raw);
  const Wide sum = Wide(usage.input - usage.cached_input) * NonNegative(input) +
                   Wide(usage.cached_input) * NonNegative(cached_input) +
                   Wide(usage.output) * NonNegative(output);
  return static_cast<int64_t>(std::min<Wide>((sum + kPerPrice - 1) / kPerPrice, kMaxMicroUsd));
}

int64_t Price::OutputFor(int64_t micro_usd, int64_t input_tokens) const {
  const Wide left = Wide(micro_usd) * kPerPrice -
                    Wide(std::clamp<int64_t>(input_tokens, 0, kMaxTokens)) * NonNegative(input);
  if (left < 0) return 0;
  if (output <= 0) return kMaxTokens;
  return static_cast<int64_t>(std::min<Wide>(left / output, kMaxTokens));
}

int64_t MicroUsdFromUsd(double usd) {
  if (!(usd > 0)) return 0;
  return static_cast<int64_t>(std::llround(std::min(usd * 1e6, static_cast<double>(kMaxMicroUsd))));
}

}  // namespace router::limits
