// Fields: the common base of readers, writers and schemas: a struct lists its fields once, in its
// namespace,
//
//   template <class O>
//   constexpr void Bind(O& o, Topology& t) {
//     o.Optional("level", t.level);      // may be left out; is left out where it has its default
//     o.Required("members", t.members);  // never left out; an empty std::optional is null
//     o.Always("required", t.required);  // may be left out, is never left out when written
//     o.Inline(t.ask);                   // its fields stand among these
//     o.NotWritten(t.line);              // JSON does not have it
//   }
//
// and can then be read from YAML and JSON, written as JSON, and described as a JSON schema. An enumeration
// has its words by `conf::Words<E> WordsOf(E)`, found by ADL. What Bind leaves out of an aggregate does not
// compile.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "conf/words.h"

namespace conf {

template <class E>
concept HasWords = std::is_enum_v<E> && requires(E value) {
  { WordsOf(value) } -> std::convertible_to<Words<E>>;
};

// Counts what a Bind lists.
struct FieldCounter {
  size_t fields = 0;
  constexpr void Required(std::string_view, auto&) { ++fields; }
  constexpr void Optional(std::string_view, auto&) { ++fields; }
  constexpr void Always(std::string_view, auto&) { ++fields; }
  constexpr void Inline(auto&) { ++fields; }
  constexpr void NotWritten(auto&) { ++fields; }
};

// Its fields are listed for every kind of reader and writer, not for conf::Object alone.
template <class T>
concept HasFields = std::is_class_v<T> && requires(FieldCounter& counter, T& in) { Bind(counter, in); };

namespace internal {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

struct AnyMember {
  template <class M>
  operator M() const;
};

// How many members an aggregate has.
template <class T, class... Members>
consteval size_t CountMembers() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; }) {
    return CountMembers<T, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

// A place for an object whose members are named while constants are computed; it never holds one.
template <class T>
struct Nowhere {
  union Storage {
    constexpr Storage() : none() {}
    constexpr ~Storage() {}
    char none;
    T object;
  };
  static inline Storage storage{};
};

template <class T>
consteval size_t CountFields() {
  FieldCounter counter;
  Bind(counter, Nowhere<T>::storage.object);
  return counter.fields;
}

// Where the fields of a T with its defaults lie, in the order in which Bind lists them.
class FieldCollector {
 public:
  explicit FieldCollector(std::vector<const void*>& into) : into_(&into) {}
  void Required(std::string_view, auto& field) { into_->push_back(&field); }
  void Optional(std::string_view, auto& field) { into_->push_back(&field); }
  void Always(std::string_view, auto& field) { into_->push_back(&field); }
  void Inline(auto& field) { into_->push_back(&field); }
  void NotWritten(auto& field) { into_->push_back(&field); }

 private:
  std::vector<const void*>* into_;
};

template <class T>
const std::vector<const void*>& Defaults() {
  static T defaults{};
  static const std::vector<const void*> fields = [] {
    std::vector<const void*> out;
    FieldCollector collector(out);
    Bind(collector, defaults);
    return out;
  }();
  return fields;
}

}  // namespace internal

// Whether Bind lists every member of an aggregate.
template <HasFields T>
inline constexpr bool kListsEveryMember = internal::CountFields<T>() == internal::CountMembers<T>();

}  // namespace conf
