// Declarative binding of configuration to structs: one list of fields serves reading, checking and writing.
//
//   void Bind(conf::Object& o, Timeouts& t) {
//     o.Required("total", t.total, conf::Positive());
//     o.Optional("connect", t.connect, conf::Positive());
//   }
//   conf::Read(document.root(), timeouts);
//
// Reading reports every problem to the Value's document and continues; a field with a problem keeps its
// default. Unknown keys are refused with a suggestion. A key with nothing behind it is a problem, never a
// zero. Bind and, for values of their own syntax, Read(const Value&, T&) and Write(Writer&, const T&) are
// found by ADL.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "conf/document.h"
#include "conf/fields.h"
#include "conf/time.h"
#include "conf/writer.h"

namespace conf {

class Object;

template <class T>
concept Bindable = requires(Object& object, T& out) { Bind(object, out); };

// A scalar with the text of a whole number, a decimal number, true or false, or any text.
void Read(const Value& value, std::string& out);
void Read(const Value& value, bool& out);
void Read(const Value& value, double& out);
void Read(const Value& value, int64_t& out);
void Read(const Value& value, uint64_t& out);
void Read(const Value& value, uint32_t& out);
void Read(const Value& value, uint16_t& out);
void Read(const Value& value, Duration& out);  // "500ms"

template <HasWords E>
void Read(const Value& value, E& out);
template <Bindable T>
void Read(const Value& value, T& out);
template <class T>
void Read(const Value& value, std::vector<T>& out);
template <class T>
void Read(const Value& value, std::optional<T>& out);
template <class T>
void Read(const Value& value, std::map<std::string, T>& out);

// Adaptors: they give a plain field a syntax. T is the field's type or an optional of it.
template <class T>
struct Size {  // bytes: 1048576 or 64MiB (KiB to TiB; kB, MB, GB are powers of ten)
  explicit Size(T& field) : out(&field) {}
  T* out;
};
template <class T>
struct Money {  // USD with at most six decimals, exactly, as micro-USD
  explicit Money(T& field) : out(&field) {}
  T* out;
};
template <class T>
struct OneOrMany {  // a vector that may be written as a single value
  explicit OneOrMany(std::vector<T>& field) : out(&field) {}
  std::vector<T>* out;
};
template <class E>
struct Choice {  // an enum by its word; `noun` is what a message calls it
  Choice(E& field, std::string_view what, Words<std::type_identity_t<E>> all)
      : out(&field), noun(what), words(all) {}
  E* out;
  std::string_view noun;
  Words<E> words;
};

std::optional<uint64_t> ParseSize(std::string_view text);
// Nothing when it is not a non-negative decimal number with at most six decimals below about 9.2e12.
std::optional<int64_t> ParseMicroUsd(std::string_view text);
std::string FormatMicroUsd(int64_t micro_usd);  // "0.15"

// Checks run on a field that was read without a problem; they return what is wrong, or an empty string.
struct NotEmpty {
  template <class T>
  std::string operator()(const T& v) const {
    return v.empty() ? "must not be empty" : "";
  }
};
struct Positive {
  std::string operator()(Duration v) const { return v > Duration::zero() ? "" : "must be longer than 0"; }
};
template <class T>
struct Range {
  T min;
  T max;
  std::string operator()(T v) const;
};
template <class T>
Range(T, T) -> Range<T>;
template <class T>
struct AtLeast {
  T min;
  std::string operator()(T v) const;
};
template <class T>
AtLeast(T) -> AtLeast<T>;

// The fields of one mapping, while it is read or written. Unknown keys are reported when it is destroyed.
class Object {
 public:
  explicit Object(const Value& value);
  explicit Object(Writer& writer);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  template <class T, class... Checks>
  void Required(std::string_view key, T&& field, const Checks&... checks) {
    Field(key, true, field, checks...);
  }
  template <class T, class... Checks>
  void Optional(std::string_view key, T&& field, const Checks&... checks) {
    Field(key, false, field, checks...);
  }

  // As data that is also read from JSON lists its fields (fields.h).
  template <class T>
  void Always(std::string_view key, T& field) {
    Field(key, false, field);
  }
  template <class T>
  void Inline(T& field) {
    Bind(*this, field);
  }
  template <class T>
  void NotWritten(const T&) {}

  bool reading() const { return value_.has_value(); }
  bool Has(std::string_view key) const;  // reading: the file gives it
  // A problem of several fields together, or of one when `key` is not empty. Nothing while writing.
  void Error(std::string_view message, std::string_view key = {}) const;

 private:
  std::optional<Value> Take(std::string_view key, bool required);

  template <class T, class... Checks>
  void Field(std::string_view key, bool required, T& field, const Checks&... checks);

  std::optional<Value> value_;
  Writer* writer_ = nullptr;
  std::vector<std::string_view> known_;
};

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
  words.reserve(field.words.size());
  for (const auto& [word, meaning] : field.words) words.push_back(word);
  if (const auto index = internal::ReadWord(value, field.noun, words))
    *field.out = field.words[*index].second;
}

template <HasWords E>
void Read(const Value& value, E& out) {
  Read(value, Choice<E>(out, "word", WordsOf(E{})));
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
  Write(writer, std::string(WordOf<E>(field.words, *field.out)));
}

template <HasWords E>
void Write(Writer& writer, E in) {
  Write(writer, std::string(WordOf<E>(WordsOf(in), in)));
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
