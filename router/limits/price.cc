#include "router/limits/price.h"

#include <algorithm>

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
  usage.cache_written = std::clamp<int64_t>(usage.cache_written, 0, usage.input - usage.cached_input);
  for (int64_t* const count : {&usage.images, &usage.audio_ms, &usage.characters})
    *count = std::clamp<int64_t>(*count, 0, kMaxTokens);
  return usage;
}

int64_t Price::Cost(const Usage& raw) const {
  const Usage usage = Sane(raw);
  constexpr Wide kMilliseconds = 1000;
  const Wide sum = Wide(usage.input - usage.cached_input - usage.cache_written) * NonNegative(input) +
                   Wide(usage.cached_input) * NonNegative(cached_input) +
                   Wide(usage.cache_written) * NonNegative(cache_write) +
                   Wide(usage.output) * NonNegative(output) +
                   Wide(usage.images) * NonNegative(image) * kPerPrice +
                   Wide(usage.audio_ms) * NonNegative(audio_second) * (kPerPrice / kMilliseconds) +
                   Wide(usage.characters) * NonNegative(characters);
  return static_cast<int64_t>(std::min<Wide>((sum + kPerPrice - 1) / kPerPrice, kMaxMicroUsd));
}

Price Price::ForReserving() const {
  Price price = *this;
  price.input = std::max(input, cache_write);
  return price;
}

int64_t Price::OutputFor(int64_t micro_usd, int64_t input_tokens) const {
  const Wide left = Wide(micro_usd) * kPerPrice -
                    Wide(std::clamp<int64_t>(input_tokens, 0, kMaxTokens)) * NonNegative(input);
  if (left < 0) return 0;
  if (output <= 0) return kMaxTokens;
  return static_cast<int64_t>(std::min<Wide>(left / output, kMaxTokens));
}

}  // namespace router::limits
