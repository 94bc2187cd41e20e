#include "scheduler/io/name_pattern.h"

#include <fmt/format.h>

#include "conf/text.h"

namespace scheduler::io {
namespace {

constexpr uint64_t kMaxNames = 1'000'000;
constexpr size_t kLongestName = 256;  // bytes: a million of them are made

}  // namespace

std::optional<NamePattern> NamePattern::Parse(std::string_view text) {
  if (text.size() > kLongestName) return std::nullopt;
  NamePattern out;
  const size_t open = text.find('{');
  const size_t close = text.find('}');
  if (open == std::string_view::npos && close == std::string_view::npos) {
    out.prefix_ = text;
    return out;
  }
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const std::string_view range = text.substr(open + 1, close - open - 1);
  const size_t dots = range.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto first = conf::ReadNumber<uint64_t>(range.substr(0, dots));
  const auto last = conf::ReadNumber<uint64_t>(range.substr(dots + 2));
  if (!first || !last || *last < *first || *last - *first >= kMaxNames) return std::nullopt;
  out.prefix_ = text.substr(0, open);
  out.suffix_ = text.substr(close + 1);
  if (out.suffix_.find_first_of("{}") != std::string::npos) return std::nullopt;
  out.is_range_ = true;
  out.first_ = *first;
  out.last_ = *last;
  out.width_ = range[0] == '0' ? dots : 0;
  return out;
}

std::string NamePattern::At(size_t index) const {
  if (!is_range_) return prefix_;
  return fmt::format("{}{:0{}}{}", prefix_, first_ + index, width_, suffix_);
}

}  // namespace scheduler::io
