// How many tokens a request will take, before its engine reports them: ratios learnt per model from earlier
// reports.
//
// One per model, process-wide, lock-free. Estimates serve reservations and load, and metering (marked as
// estimated) where an engine reports nothing. All values are bounded, so that one absurd report cannot spoil
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace router {

class TokenEstimate {
 public:
  static constexpr double kFirstTokensPerByte = 0.25;  // English prose: about 4 bytes per token
  static constexpr double kFirstTokensPerTextByte = 0.25;
  static constexpr double kFirstOutput = 256;
  static constexpr double kFirstLongOutput = 512;

  // Tokens of a prompt, at least 1. `token_ids`: number of prompt tokens that are given as ids.
  int64_t Prompt(uint64_t bytes, uint64_t token_ids = 0, uint32_t media_parts = 0) const;

  // Expected tokens of one completion, at most its bound.
  int64_t ExpectedOutput(std::optional<int64_t> bound) const;

  // Statistics of the last few hundred completions, for estimates over many requests; ExpectedOutput follows
  // the last twenty. `mean`: at most the bound. `written`: tokens that a completion has on average while it
  // is being written, E[output^2] / (2 E[output]), at most half of the bound.
  struct Completion {
    double mean = 0;
    double written = 0;
  };
  Completion MeanOutput(std::optional<int64_t> bound) const;

  // Tokens of a prompt that an engine is expected to have cached, by the share of the last prompts' tokens
  // that engines reported as cached.
  int64_t Cached(int64_t prompt_tokens) const;

  // Generated tokens, by the text that was shown: its bytes, and the events that it came in, each of which
  // has at least one token.
  int64_t OutputOfText(uint64_t bytes, uint64_t events) const;

  // The length that 19 of 20 completions without a bound of their own did not exceed.
  int64_t LongOutput() const;

  // The assumed most of a completion without a known bound: well above LongOutput.
  int64_t LikelyMaximum() const;

  // Reports of an engine at the end of a request.
  void LearnPrompt(uint64_t bytes, int64_t prompt_tokens);
  void LearnCached(int64_t prompt_tokens, int64_t cached_tokens);
  // `text_bytes`: those of the text that these tokens have shown, all of it; 0 where some of it was hidden,
  // or it was not counted. `all_shown`: it is certain that no token was hidden; else only what is common for
  // text teaches, since an engine need not say how much was hidden.
  void LearnOutput(int64_t completion_tokens, uint64_t text_bytes, bool all_shown = false);
  // Whether a completion had far more tokens than its text.
  void LearnHidden(bool hidden);
  // Learns from a completion that ended by itself and had no bound.
  void LearnUnbounded(int64_t completion_tokens);

  // Whether completions lately had tokens that were not shown.
  bool Hides() const { return hidden_left_.load(std::memory_order_relaxed) > 0; }

  double tokens_per_byte() const { return tokens_per_byte_.load(std::memory_order_relaxed); }
  double tokens_per_text_byte() const { return tokens_per_text_byte_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> tokens_per_byte_{kFirstTokensPerByte};
  std::atomic<double> tokens_per_text_byte_{kFirstTokensPerTextByte};
  std::atomic<double> output_{kFirstOutput};
  std::atomic<double> long_output_{kFirstLongOutput};
  std::atomic<double> mean_output_{kFirstOutput};
  std::atomic<double> square_output_{kFirstOutput * kFirstOutput};
  std::atomic<uint64_t> outputs_{0};
  std::atomic<uint32_t> hidden_left_{0};  // completions until what was hidden is forgotten
  std::atomic<double> prompt_{0};         // mean tokens of a prompt
  std::atomic<double> cached_{0};         // mean cached tokens of a prompt
};

}  // namespace router
