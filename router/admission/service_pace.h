// What answers have taken of late, at the least: for who asks whether a request could be answered in time if
// its turn came now. Of streams the time to the first byte; of answers that come whole the fewest tokens that
// one had, at the least time a token. Each is a bound that one of the last half minute to a minute kept, so a
// request is only given up when nothing like it could have been in time; nothing is known of fewer than eight
// answers. Pure; the caller locks.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "conf/time.h"

namespace router {

class ServicePace {
 public:
  // The time from the request's last byte to the answer's first.
  void FirstByte(conf::Duration took, conf::TimePoint now);
  // ... to the last of an answer that came whole, of so many tokens.
  void Whole(conf::Duration took, int64_t tokens, conf::TimePoint now);

  // The least that it will take; zero while that is not known.
  conf::Duration LeastToFirstByte(conf::TimePoint now) const;
  // Of an answer of at most so many tokens; 0: without a bound.
  conf::Duration LeastWhole(int64_t most_tokens, conf::TimePoint now) const;

 private:
  static constexpr conf::Duration kWindow = std::chrono::seconds(30);
  static constexpr uint32_t kEnough = 8;

  // The least of each of two windows, the running one and the one before it.
  struct Least {
    static constexpr double kNone = std::numeric_limits<double>::infinity();
    struct Window {
      uint32_t count = 0;
      double first = kNone;
      double second = kNone;
    };
    void Note(double first, double second, conf::TimePoint now);
    // By the windows that are not over since long.
    Window Read(conf::TimePoint now) const;

    std::array<Window, 2> windows{};
    conf::TimePoint begun{};
  };

  Least first_byte_;  // seconds
  Least whole_;       // seconds a token, and tokens
};

}  // namespace router
