// The values of the `x-ratelimit-*` headers: the tightest limit per minute on requests, and the tightest on tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "conf/time.h"
#include "router/limits/plan.h"

namespace router::limits {

struct RateStatus {
  struct One {
    int64_t limit = 0;
    int64_t remaining = 0;   // never negative
    conf::Duration reset{};  // until the whole limit is free again, if nothing comes
  };
  std::optional<One> requests;  // none: unlimited
  std::optional<One> tokens;    // total, input or output tokens, whichever has the least left
};

// For the node's whole path. Thread-safe; takes the root's lock.
RateStatus Rates(const NodeRef& node, ModelRef model, conf::TimePoint now);

// A duration in OpenAI's form: `0s`, `12ms`, `6s`, `1.5s`, `1m0s`, `2h0m30s`; rounded up to whole milliseconds. The
// result is a view into `text`.
using ResetText = std::array<char, 32>;
std::string_view FormatReset(conf::Duration reset, ResetText& text);

}  // namespace router::limits
