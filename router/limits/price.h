// Money: integer micro-USD. What a request's tokens cost, and how many tokens an amount still buys.
//
// Prices are micro-USD per million tokens: 0.15 USD per million tokens (as configuration and providers write
// it) is 150,000. A request's cost is rounded up once, over its whole sum, so that it is never billed less
// than it cost and at most one micro-USD more. Intermediate sums are 128 bits wide. Plain values, no thread
// rules.
#pragma once

#include <cstdint>

namespace router::limits {

// Counts beyond these come from a broken engine; they are cut there so that sums cannot overflow.
inline constexpr int64_t kMaxTokens = 10'000'000'000;
inline constexpr int64_t kMaxMicroUsd = 1'000'000'000'000;

// What a request really used. `cached_input` is the part of `input` that the engine served from its prefix
// cache.
struct Usage {
  int64_t input = 0;
  int64_t cached_input = 0;
  int64_t output = 0;
};

// Negative counts become 0, counts beyond kMaxTokens are cut, cached_input is at most input.
Usage Sane(Usage usage);

struct Price {
  int64_t input = 0;  // micro-USD per million tokens, all three
  int64_t cached_input = 0;
  int64_t output = 0;

  // In micro-USD, in [0, kMaxMicroUsd]; rounded up.
  int64_t Cost(const Usage& usage) const;

  // The most output tokens such that they and `input_tokens` cost at most `micro_usd`: kMaxTokens when output
  // is free, 0 when even the input is too dear.
  int64_t OutputFor(int64_t micro_usd, int64_t input_tokens) const;
};

// From USD per million tokens to a Price's unit, rounded to the nearest; 0 for what is negative or no number.
int64_t MicroUsdFromUsd(double usd);

}  // namespace router::limits
