// Template bodies of conf/reader.h; include that.
#pragma once

#include <type_traits>

#include "conf/reader.h"

namespace conf {
namespace internal {

bool ExpectSequence(const Value& value);
bool ExpectMapping(const Value& value);
void ReadSize(const Value& value, uint64_t& out);
void ReadMicroUsd(const Value& value, int64_t& out);
// The index of the scalar's text among `words`, or nothing and a problem.
std::optional<size_t> ReadWord(const Value& value, std::string_view noun,
                               std::span<const std::string_view> words);
std::string TooSmall(int64_t min);
std::string TooSmall(uint64_t min);
std::string TooSmall(double min);
std::string NotBetween(int64_t min, int64_t max);
std::string NotBetween(uint64_t min, uint64_t max);
std::string NotBetween(double min, double max);
std::string TooSmall(Duration min);
std::string NotBetween(Duration min, Duration max);

// What a message's helper takes: the widest type of the same kind.
template <class T>
auto Widen(T v) {
  if constexpr (std::floating_point<T>) {
    return static_cast<double>(v);
  } else if constexpr (std::unsigned_integral<T>) {
    return static_cast<uint64_t>(v);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<int64_t>(v);
  } else {
    return v;
  }
}

// What checks look at: the field behind adaptors and optionals.
template <class T>
const T& Target(const T& field) {
  return field;  // NOLINT(bugprone-return-const-ref-from-parameter): fields live longer
}
template <class T>
const T& Target(const std::optional<T>& field) {
  return *field;
}
template <class T>
const auto& Target(const Size<T>& field) {
  return Target(*field.out);
}
template <class T>
const auto& Target(const Money<T>& field) {
  return Target(*field.out);
}
template <class T>
const std::vector<T>& Target(const OneOrMany<T>& field) {
  return *field.out;
}

}  // namespace internal

template <class T>
void Read(const Value& value, const Size<T>& field) {
  uint64_t out = 0;
  const size_t before = value.document().problem_count();
  internal::ReadSize(value, out);
  if (value.document().problem_count() == before) *field.out = out;
}

template <class T>
void Read(const Value& value, const Money<T>& field) {
  int64_t out = 0;
  const size_t before = value.document().problem_count();
  internal::ReadMicroUsd(value, out);
  if (value.document().problem_count() == before) *field.out = out;
}

template <class E>
void Read(const Value& value, const Choice<E>& field) {
  std::vector<std::string_view> words;
  words.reserve(field.table.size());
  for (const auto& [word, meaning] : field.table) words.push_back(word);
  if (const auto index = internal::ReadWord(value, field.noun, words))
    *field.out = field.table[*index].second;
}

template <class T>
void Read(const Value& value, const OneOrMany<T>& field) {
  if (value.kind() == Kind::kSequence) {
    Read(value, *field.out);
    return;
  }
  field.out->clear();
  Read(value, field.out->emplace_back());
}

template <Bindable T>
void Read(const Value& value, T& out) {
  Object object(value);
  Bind(object, out);
}

template <class T>
void Read(const Value& value, std::vector<T>& out) {
  if (!internal::ExpectSequence(value)) return;
  out.clear();
  for (const Value& item : value.Items()) Read(item, out.emplace_back());
}

template <class T>
void Read(const Value& value, std::optional<T>& out) {
  Read(value, out.emplace());
}

template <class T>
void Read(const Value& value, std::map<std::string, T>& out) {
  if (!internal::ExpectMapping(value)) return;
  out.clear();
  for (const auto& [key, item] : value.Fields()) Read(item, out[key]);
}

template <class T>
std::string Range<T>::operator()(T v) const {
  if (v >= min && v <= max) return {};
  return internal::NotBetween(internal::Widen(min), internal::Widen(max));
}

template <class T>
std::string AtLeast<T>::operator()(T v) const {
  return v >= min ? std::string() : internal::TooSmall(internal::Widen(min));
}

template <Bindable T>
void Write(Writer& writer, const T& in) {
  Object object(writer);
  Bind(object, const_cast<T&>(in));  // a writing Object only looks
}

template <class T>
void Write(Writer& writer, const Size<T>& field) {
  Write(writer, *field.out);
}

template <class T>
void Write(Writer& writer, const Money<T>& field) {
  if constexpr (std::same_as<T, int64_t>) {
    Write(writer, FormatMicroUsd(*field.out));
  } else if (*field.out) {
    Write(writer, FormatMicroUsd(**field.out));
  }
}

template <class E>
void Write(Writer& writer, const Choice<E>& field) {
  Write(writer, std::string(WordOf(field.table, *field.out)));
}

template <class T>
void Write(Writer& writer, const OneOrMany<T>& field) {
  Write(writer, *field.out);
}

template <class T>
void Write(Writer& writer, const std::vector<T>& in) {
  for (const T& item : in) {
    Writer child = writer.Item();
    Write(child, item);
  }
}

template <class T>
void Write(Writer& writer, const std::optional<T>& in) {
  if (in) Write(writer, *in);
}

template <class T>
void Write(Writer& writer, const std::map<std::string, T>& in) {
  for (const auto& [key, item] : in) {
    Writer child = writer.Field(key);
    Write(child, item);
  }
}

template <class T, class... Checks>
void Object::Field(std::string_view key, bool required, T& field, const Checks&... checks) {
  if (writer_ != nullptr) {
    Writer child = writer_->Field(key);
    Write(child, std::as_const(field));
    return;
  }
  const std::optional<Value> value = Take(key, required);
  if (!value) return;
  const size_t before = value->document().problem_count();
  Read(*value, field);
  if (value->document().problem_count() != before) return;
  const auto check = [&](const auto& one) {
    if (std::string wrong = one(internal::Target(std::as_const(field))); !wrong.empty()) value->Error(wrong);
  };
  (check(checks), ...);
}

}  // namespace conf
