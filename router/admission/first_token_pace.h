// How soon first tokens come at a replica, from those that came: how many a second while somebody waits for
// one, and how long it takes who finds nobody waiting. What a new request waits there is, by Little's law,
// those before it over the first; what goes beyond the second is a queue's doing. The last twenty count, so
// that a batch that was full a while ago says little. Pure; the caller locks.
#pragma once

#include <algorithm>

namespace router {

class FirstTokenPace {
 public:
  // One came, `seconds` after the one before it or since somebody waits.
  void Came(double seconds) {
    count_ = count_ * kKept + 1;
    seconds_ = seconds_ * kKept + std::max(seconds, kShortest);
  }
  // ... to a request that had found nobody waiting, `seconds` after it was sent with `tokens` to compute.
  void CameAlone(double seconds, double tokens) {
    alone_.Add(std::max(tokens, 0.0), std::clamp(seconds, 0.0, kLongestAlone));
  }

  double per_second() const { return seconds_ > 0 ? count_ / seconds_ : 0; }  // 0: not measured
  double alone() const { return alone_.Mean(); }
  // Of that, what does not grow with the prompt: the way there, and the step that is under way.
  double latency() const { return alone_.AtNoTokens(); }

 private:
  static constexpr double kKept = 0.95;
  static constexpr double kShortest = 1e-5;
  static constexpr double kLongestAlone = 5;  // a first request that compiles kernels is no measure
  // Prompts that differ by less than this part of their mean say nothing of what their length does.
  static constexpr double kTelling = 0.25;

  // Seconds by tokens: the line of least squares through those that came.
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
    // What a prompt without a token would take; what they take in the mean, where they are all alike.
    double AtNoTokens() const {
      if (count_ <= 0) return 0;
      const double tokens = tokens_ / count_;
      const double seconds = seconds_ / count_;
      const double variance = squares_ / count_ - tokens * tokens;
      if (variance <= kTelling * kTelling * tokens * tokens) return seconds;
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
  Line alone_;
};

}  // namespace router
