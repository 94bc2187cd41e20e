// How many tokens a request will cost, before the engine has said: ratios learned per model from what engines
// report.
//
// One per model, process-wide, lock-free. Estimates serve reservations and load, and, where an engine reports
// nothing, metering that is marked as estimated. All values are bounded, so that one absurd report cannot
// poison them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace router {

class TokenEstimate {
 public:
  static constexpr double kFirstTokensPerByte =
      0.25;  // English prose in current tokenizers: about 4 bytes a token
  static constexpr double kFirstTokensPerEvent = 1;
  static constexpr double kFirstOutput = 256;

  // Tokens of a prompt; at least 1. `token_ids` are counted as they are.
  int64_t Prompt(uint64_t bytes, uint64_t token_ids = 0, uint32_t media_parts = 0) const;

  // Tokens that one completion is expected to have, never above its bound.
  int64_t ExpectedOutput(std::optional<int64_t> bound) const;

  // How long completions are by the last few hundred, where ExpectedOutput follows the last twenty: what the
  // work of many requests is reckoned by. The mean, never above the bound, and how much of one is there on
  // the mean while it is written: E[output^2] / (2 E[output]), half of the bound at most.
  struct Completion {
    double mean = 0;
    double written = 0;
  };
  Completion MeanOutput(std::optional<int64_t> bound) const;

  // Of a prompt of so many tokens, those that an engine is expected to hold already: by the share that it
  // held of the last prompts, long ones counting for more.
  int64_t Cached(int64_t prompt_tokens) const;

  // Tokens generated, told from the number of content events relayed.
  int64_t OutputOfEvents(uint64_t events) const;

  // What an engine reported at the end of a request.
  void LearnPrompt(uint64_t bytes, int64_t prompt_tokens);
  void LearnCached(int64_t prompt_tokens, int64_t cached_tokens);
  void LearnOutput(int64_t completion_tokens, uint64_t events);  // events: 0 when not streamed

  double tokens_per_byte() const { return tokens_per_byte_.load(std::memory_order_relaxed); }
  double tokens_per_event() const { return tokens_per_event_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> tokens_per_byte_{kFirstTokensPerByte};
  std::atomic<double> tokens_per_event_{kFirstTokensPerEvent};
  std::atomic<double> output_{kFirstOutput};
  std::atomic<double> mean_output_{kFirstOutput};
  std::atomic<double> square_output_{kFirstOutput * kFirstOutput};
  std::atomic<uint64_t> outputs_{0};
  std::atomic<double> prompt_{0};  // tokens of one
  std::atomic<double> cached_{0};  // ... of which the engine held so many
};

}  // namespace router
