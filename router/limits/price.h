// Money as integer micro-USD: what a request's tokens cost, and how many tokens an amount buys.
//
// Prices are in micro-USD per million tokens: 0.15 USD per million tokens, as configuration and providers
// write it, is 150,000. A request's cost is rounded up once, over its whole sum, so that the bill is never
// below the cost and at most one micro-USD above it. Intermediate sums have 128 bits. Plain values.
#pragma once

#include <cstdint>

namespace router::limits {

// Larger counts come from a broken engine and are cut to these, so that sums cannot overflow.
inline constexpr int64_t kMaxTokens = 10'000'000'000;
inline constexpr int64_t kMaxMicroUsd = 1'000'000'000'000;

// What a request used, in tokens. `cached_input` is the part of `input` that the engine had in its prefix cache,
// `cache_written` the part that it was asked to keep there. The last members count other units than tokens.
struct Usage {
  int64_t input = 0;
  int64_t cached_input = 0;
  int64_t output = 0;
  int64_t cache_written = 0;
  int64_t images = 0;      // made
  int64_t audio_ms = 0;    // of sound, read
  int64_t characters = 0;  // of text, spoken
};

// Negative counts become 0, counts beyond kMaxTokens are cut, cached_input is at most input.
Usage Sane(Usage usage);

struct Price {
  int64_t input = 0;  // micro-USD per million tokens, like the next three
  int64_t cached_input = 0;
  int64_t output = 0;
  int64_t cache_write = 0;
  int64_t image = 0;         // micro-USD each
  int64_t audio_second = 0;  // micro-USD each
  int64_t characters = 0;    // micro-USD per million

  // In micro-USD, in [0, kMaxMicroUsd]; rounded up.
  int64_t Cost(const Usage& usage) const;

  // The price for a reservation: the whole prompt counts as written to a cache, where that costs more.
  Price ForReserving() const;

  // The most output tokens that, with `input_tokens`, cost at most `micro_usd`: kMaxTokens when output is
  // free, 0 when the input alone costs more.
  int64_t OutputFor(int64_t micro_usd, int64_t input_tokens) const;
};

}  // namespace router::limits
