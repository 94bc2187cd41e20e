// The one bridge between std::string_view and Debian's absl::string_view, which is a type of its own,
// and the few helpers on text that every room needs.
#pragma once

#include <absl/strings/string_view.h>

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace conf {

inline absl::string_view Abseil(std::string_view s) {
  return {s.data(), s.size()};
}
inline std::string_view Std(absl::string_view s) {
  return {s.data(), s.size()};
}

// The candidate nearest to `word` by edit distance, when it is near enough to be a likely slip; else empty.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

// `, did you mean "x"?` for the nearest candidate, or empty.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

// The whole text as a number; nothing where it is none, or one that T cannot hold.
template <class T>
std::optional<T> ReadNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ASCII only; header names and schemes, never human text.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace conf
