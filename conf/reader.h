// Declarative binding of configuration to structs: one list of fields serves reading, checking and writing.
//
//   void Bind(conf::Object& o, Timeouts& t) {
//     o.Required("total", t.total, conf::Positive());
//     o.Optional("connect", t.connect, conf::Positive());
//   }
//   conf::Read(document.root(), timeouts);
//
// Reading reports every problem to the Value's document and goes on; a field with a problem keeps its
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
#include <utility>
#include <vector>

#include "conf/document.h"
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
using ChoiceTable = std::span<const std::pair<std::string_view, E>>;
template <class E>
struct Choice {  // an enum by its word; `noun` is what a message calls it
  Choice(E& field, std::string_view what, ChoiceTable<std::type_identity_t<E>> words)
      : out(&field), noun(what), table(words) {}
  E* out;
  std::string_view noun;
  ChoiceTable<E> table;
};

std::optional<uint64_t> ParseSize(std::string_view text);
// Nothing when it is not a non-negative decimal number with at most six decimals below about 9.2e12.
std::optional<int64_t> ParseMicroUsd(std::string_view text);
std::string FormatMicroUsd(int64_t micro_usd);  // "0.15"

// The word of `value` in a table that has them all.
template <class E>
std::string_view WordOf(ChoiceTable<E> table, E value) {
  for (const auto& [word, meaning] : table) {
    if (meaning == value) return word;
  }
  return {};
}

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

}  // namespace conf

#include "conf/reader_inl.h"  // IWYU pragma: export
