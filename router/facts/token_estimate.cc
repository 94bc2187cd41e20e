#include "router/facts/token_estimate.h"

#include <algorithm>
#include <cmath>

namespace router {
namespace {

constexpr double kGain = 0.05;            // of the moving averages: about the last twenty requests
constexpr uint64_t kMinPromptBytes = 64;  // a shorter prompt is mostly chat template
constexpr double kTokensPerMediaPart = 512;
constexpr double kMaxTokens = 1e12;
constexpr double kSlowGain = 0.002;  // about the last five hundred

struct Range {
  double low;
  double high;
};
constexpr Range kTokensPerByte{0.02, 2};
// Of text that is shown. Other samples are of answers that were thought in part, and teach nothing.
constexpr Range kTokensPerTextByte{0.1, 1};
// Of text of most languages and of code; what is said of other samples may include hidden tokens.
constexpr Range kCommonPerTextByte{0.15, 0.45};
constexpr uint32_t kHiddenMemory = 1000;  // completions
constexpr uint64_t kMinTextBytes = 64;
// The quantile of long answers: with this step it rises by a twentieth when one is longer, and falls by a
// nineteenth of that when one is not, so that it rests where one of twenty is longer.
constexpr double kLongShare = 0.95;
constexpr double kLongStep = 0.05;
constexpr Range kOutput{1, 131072};
constexpr Range kSquareOutput{1, kOutput.high* kOutput.high};
constexpr Range kPrompt{0, 1e8};

void Learn(std::atomic<double>& average, double sample, Range range, double gain = kGain) {
  if (!std::isfinite(sample)) return;
  const double bounded = std::clamp(sample, range.low, range.high);
  double current = average.load(std::memory_order_relaxed);
  while (!average.compare_exchange_weak(current, current + gain * (bounded - current),
                                        std::memory_order_relaxed)) {
  }
}

int64_t Tokens(double value) {
  return static_cast<int64_t>(std::ceil(std::min(value, kMaxTokens)));
}

}  // namespace

int64_t TokenEstimate::Prompt(uint64_t bytes, uint64_t token_ids, uint32_t media_parts) const {
  const double text = static_cast<double>(bytes) * tokens_per_byte();
  return std::max<int64_t>(1,
                           Tokens(text + static_cast<double>(token_ids) + media_parts * kTokensPerMediaPart));
}

int64_t TokenEstimate::ExpectedOutput(std::optional<int64_t> bound) const {
  const int64_t expected = Tokens(output_.load(std::memory_order_relaxed));
  return bound ? std::clamp<int64_t>(*bound, 0, expected) : expected;
}

TokenEstimate::Completion TokenEstimate::MeanOutput(std::optional<int64_t> bound) const {
  const double mean = mean_output_.load(std::memory_order_relaxed);
  // Another shard may change one average between the two reads.
  const double square = std::max(square_output_.load(std::memory_order_relaxed), mean * mean);
  const double most = bound ? std::max(static_cast<double>(*bound), 0.0) : kMaxTokens;
  return {.mean = std::min(mean, most), .written = std::min(square / mean, most) / 2};
}

int64_t TokenEstimate::Cached(int64_t prompt_tokens) const {
  const double prompt = prompt_.load(std::memory_order_relaxed);
  if (prompt <= 0 || prompt_tokens <= 0) return 0;
  const double share = std::min(1.0, cached_.load(std::memory_order_relaxed) / prompt);
  return static_cast<int64_t>(share * std::min(static_cast<double>(prompt_tokens), kMaxTokens));
}

int64_t TokenEstimate::OutputOfText(uint64_t bytes, uint64_t events) const {
  const double by_text = static_cast<double>(bytes) * tokens_per_text_byte();
  return Tokens(std::max(by_text, static_cast<double>(events)));
}

int64_t TokenEstimate::LongOutput() const {
  return Tokens(long_output_.load(std::memory_order_relaxed));
}

int64_t TokenEstimate::LikelyMaximum() const {
  constexpr int64_t kLeast = 4096;
  return std::clamp<int64_t>(4 * LongOutput(), kLeast, static_cast<int64_t>(kOutput.high));
}

void TokenEstimate::LearnPrompt(uint64_t bytes, int64_t prompt_tokens) {
  if (bytes < kMinPromptBytes || prompt_tokens <= 0) return;
  Learn(tokens_per_byte_, static_cast<double>(prompt_tokens) / static_cast<double>(bytes), kTokensPerByte);
}

// Both averages decay together, so that their ratio is the share of cached tokens.
void TokenEstimate::LearnCached(int64_t prompt_tokens, int64_t cached_tokens) {
  if (prompt_tokens <= 0) return;
  Learn(prompt_, static_cast<double>(prompt_tokens), kPrompt);
  Learn(cached_, static_cast<double>(std::min(cached_tokens, prompt_tokens)), kPrompt);
}

void TokenEstimate::LearnOutput(int64_t completion_tokens, uint64_t text_bytes, bool all_shown) {
  if (completion_tokens < 0) return;
  const auto output = static_cast<double>(completion_tokens);
  Learn(output_, output, kOutput);
  // The first samples all count alike.
  const auto count = static_cast<double>(outputs_.fetch_add(1, std::memory_order_relaxed) + 1);
  Learn(mean_output_, output, kOutput, std::max(kSlowGain, 1 / count));
  Learn(square_output_, output * output, kSquareOutput, std::max(kSlowGain, 1 / count));
  if (text_bytes < kMinTextBytes) return;
  const double per_byte = output / static_cast<double>(text_bytes);
  const Range plausible = all_shown ? kTokensPerTextByte : kCommonPerTextByte;
  if (per_byte < plausible.low || per_byte > plausible.high) return;
  Learn(tokens_per_text_byte_, per_byte, kTokensPerTextByte);
}

void TokenEstimate::LearnHidden(bool hidden) {
  if (hidden) return hidden_left_.store(kHiddenMemory, std::memory_order_relaxed);
  uint32_t left = hidden_left_.load(std::memory_order_relaxed);
  while (left > 0 && !hidden_left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
}

void TokenEstimate::LearnUnbounded(int64_t completion_tokens) {
  if (completion_tokens < 0) return;
  const auto output = static_cast<double>(completion_tokens);
  double current = long_output_.load(std::memory_order_relaxed);
  double next = 0;
  do {
    const double change = output > current ? kLongStep : -kLongStep * (1 - kLongShare) / kLongShare;
    next = std::clamp(current * (1 + change), kOutput.low, kOutput.high);
  } while (!long_output_.compare_exchange_weak(current, next, std::memory_order_relaxed));
}

}  // namespace router
