// The least time that recent answers took: it shows whether a request could still be answered in time if it went now.
// For streams: the time to the first byte. For other answers: the fewest tokens of an answer, times the least time for
// a token. Each minimum covers the last 30 to 60 seconds, so a request is given up only when no recent answer would
// have been in time. Fewer than eight answers prove nothing. Pure; the caller locks.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "conf/time.h"

namespace router {

class ServicePace {
 public:
  // A stream's first byte came `took` after the request's last byte.
  void ObserveFirstByte(conf::Duration took, conf::TimePoint now);
  // The last byte of an answer of `tokens` that was not streamed came `took` after the request's last byte.
  void ObserveWhole(conf::Duration took, int64_t tokens, conf::TimePoint now);

  // The least time to be expected; zero while it is not known.
  conf::Duration LeastToFirstByte(conf::TimePoint now) const;
  // For an answer of at most `most_tokens`; 0: unbounded.
  conf::Duration LeastWhole(int64_t most_tokens, conf::TimePoint now) const;

 private:
  static constexpr conf::Duration kWindow = std::chrono::seconds(30);
  static constexpr uint32_t kEnough = 8;

  // Minima of the current window and the one before it.
  struct Least {
    static constexpr double kNone = std::numeric_limits<double>::infinity();
    struct Window {
      uint32_t count = 0;
      double first = kNone;
      double second = kNone;
    };
    void Note(double first, double second, conf::TimePoint now);
    // Over both windows, unless they are too old.
    Window Read(conf::TimePoint now) const;

    std::array<Window, 2> windows{};
    conf::TimePoint begun{};
  };

  Least first_byte_;  // seconds
  Least whole_;       // seconds per token, and tokens
};

}  // namespace router
