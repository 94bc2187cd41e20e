// Answer: how one call to a model went, as its client saw it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace bench {

enum class Ending : uint8_t {
  kDone,        // a whole 2xx answer; a stream: with its end marker
  kRefused,     // whole, with an error status
  kNotReached,  // no connection, or it ended before the first byte
  kCut,         // ended before the answer was whole
  kUnclean,     // a stream that ended as if whole, but without [DONE]
  kFailed,      // a stream that reported an error
  kTimedOut,
  kMalformed,  // not HTTP, or no JSON where it belongs
};
std::string_view Name(Ending ending);

struct Usage {
  uint64_t input = 0;  // tokens; cached is a part of it
  uint64_t cached = 0;
  uint64_t output = 0;
};

struct Answer {
  Ending ending = Ending::kNotReached;
  int status = 0;
  std::string code;                           // of the error object, when there is one
  std::string limit;                          // the limit that refused, as its header names it
  std::optional<bool> should_retry;           // as x-should-retry says
  std::optional<conf::Duration> retry_after;  // as retry-after-ms or retry-after says
  conf::Duration to_first{};  // from the send to the first event; to the head of a whole answer
  conf::Duration total{};
  conf::Duration max_gap{};  // between events of a stream
  uint64_t events = 0;       // that carried data, [DONE] not counted
  std::optional<Usage> usage;

  // Between the events of a stream, on average; nothing for fewer than two.
  std::optional<conf::Duration> MeanGap() const {
    if (events < 2) return std::nullopt;
    return (to_last - to_first) / static_cast<int64_t>(events - 1);
  }
  conf::Duration to_last{};  // event
};

}  // namespace bench
