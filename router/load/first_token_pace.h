// How soon first tokens come at a replica: how many per second while requests wait for one, and how long an
// uncontended request takes. By Little's law a new request waits for the number of waiting requests divided
// by the first; time beyond the second is queueing. Old samples decay, about the last twenty count, so that a
// batch that was full a while ago says little. Pure; the caller locks.
#pragma once

#include <algorithm>

namespace router {

class FirstTokenPace {
 public:
  // A first token came, `seconds` after the previous one or after the first request began to wait.
  void Observe(double seconds) {
    count_ = count_ * kKept + 1;
    seconds_ = seconds_ * kKept + std::max(seconds, kShortest);
  }
  // It came for a request that found no other waiting, `seconds` after it was sent with `tokens` to compute.
  void ObserveUncontended(double seconds, double tokens) {
    uncontended_.Add(std::max(tokens, 0.0), std::clamp(seconds, 0.0, kLongestUncontended));
  }

  double per_second() const { return seconds_ > 0 ? count_ / seconds_ : 0; }  // 0: not measured
  double uncontended() const { return uncontended_.Mean(); }                  // seconds
  // The part of it that does not grow with the prompt: the network, and the step that is under way.
  double latency() const { return uncontended_.AtNoTokens(); }

 private:
  static constexpr double kKept = 0.95;
  static constexpr double kShortest = 1e-5;
  static constexpr double kLongestUncontended = 5;  // a first request that compiles kernels is no measure
  // Prompt lengths that vary by less than this part of their mean do not show how time grows with length.
  static constexpr double kMinSpread = 0.25;

  // Seconds by tokens: a least-squares line through the decayed samples.
  class Line {
   public:
    void Add(double tokens, double seconds) {
      count_ = count_ * kKept + 1;
      tokens_ = tokens_ * kKept + tokens;
      seconds_ = seconds_ * kKept + seconds;
      squares_ = squares_ * kKept + tokens * tokens;
      products_ = products_ * kKept + tokens * seconds;
    }
    double Mean() const { return count_ > 0 ? seconds_ / count_ : 0; }
    // The line at zero tokens; the mean where all prompts are alike.
    double AtNoTokens() const {
      if (count_ <= 0) return 0;
      const double tokens = tokens_ / count_;
      const double seconds = seconds_ / count_;
      const double variance = squares_ / count_ - tokens * tokens;
      if (variance <= kMinSpread * kMinSpread * tokens * tokens) return seconds;
      const double each = (products_ / count_ - tokens * seconds) / variance;
      return std::max(0.0, seconds - std::max(0.0, each) * tokens);
    }

   private:
    double count_ = 0;
    double tokens_ = 0;
    double seconds_ = 0;
    double squares_ = 0;
    double products_ = 0;
  };

  double count_ = 0;
  double seconds_ = 0;
  Line uncontended_;
};

}  // namespace router
