// The words of an enumeration: one table gives each value its word and reads the word back.
//
//   constexpr conf::Word<Level> kLevels[] = {{"info", Level::kInfo}, {"warn", Level::kWarn}};
//   conf::WordOf(kLevels, Level::kWarn);   // "warn"
//   conf::ValueOf(kLevels, "info");        // Level::kInfo
//   o.Optional("level", conf::Choice(level, "level", kLevels));
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace conf {

template <class E>
using Word = std::pair<std::string_view, E>;
template <class E>
using Words = std::span<const Word<E>>;

// Empty where the table does not have the value. Of several words for one value, the first.
template <class E>
constexpr std::string_view WordOf(Words<E> words, E value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return {};
}
template <class E, size_t N>
constexpr std::string_view WordOf(const Word<E> (&words)[N], std::type_identity_t<E> value) {
  return WordOf<E>(Words<E>(words), value);
}

// Nothing where the table does not have the word.
template <class E>
constexpr std::optional<E> ValueOf(Words<E> words, std::string_view word) {
  for (const auto& [name, value] : words) {
    if (name == word) return value;
  }
  return std::nullopt;
}
template <class E, size_t N>
constexpr std::optional<E> ValueOf(const Word<E> (&words)[N], std::string_view word) {
  return ValueOf<E>(Words<E>(words), word);
}

}  // namespace conf
