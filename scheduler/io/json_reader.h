// Reads structs from JSON by the same list of fields that json_writer.h writes them by.
//
//   template <class A> void Fields(A& a, const Topology*) {
//     a.Optional("level", &Topology::level);
//     a.Optional("required", &Topology::required);
//   }
//
// Every problem is kept with its JSON pointer, and reading goes on: unknown and repeated keys, values of
// another type, numbers that do not fit, unknown words. A field with a problem keeps its default. Times are
// RFC 3339 or seconds since the epoch, durations a text with a unit or seconds.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace scheduler::io {

using Json = nlohmann::json;

// All values of an enum whose words Name() gives; specialised beside its Fields.
template <class E>
inline constexpr int kEnumerators = 0;

// The problems of one JSON text with their places. Keeps at most kKept, counts all.
class JsonFaults {
 public:
  struct Fault {
    std::string pointer;
    std::string value;
    std::string message;
  };
  static constexpr size_t kKept = 100;

  void Enter(std::string_view key) { path_.emplace_back(key); }
  void Enter(size_t index) { path_.emplace_back(std::to_string(index)); }
  void Leave() { path_.pop_back(); }

  void Add(std::string message, const Json* value = nullptr);
  // "expected a whole number, found "x""
  void Expected(std::string_view what, const Json& found);
  void Unknown(std::string_view noun, const Json& found, const std::vector<std::string_view>& words);

  bool full() const { return count_ >= kKept; }  // more are only counted
  size_t count() const { return count_; }
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  std::vector<std::string> path_;
  std::vector<Fault> faults_;
  size_t count_ = 0;
};

// Nothing, and a fault, when the text is not one JSON value or an object in it repeats a key.
std::optional<Json> ParseJson(std::string_view text, JsonFaults& faults);

void ReadJson(const Json& in, std::string& out, JsonFaults& faults);
void ReadJson(const Json& in, bool& out, JsonFaults& faults);
void ReadJson(const Json& in, double& out, JsonFaults& faults);
void ReadJson(const Json& in, conf::Duration& out, JsonFaults& faults);
void ReadJson(const Json& in, conf::TimePoint& out, JsonFaults& faults);
// Whole numbers between the bounds.
std::optional<int64_t> ReadWhole(const Json& in, int64_t min, int64_t max, JsonFaults& faults);
void ReadJson(const Json& in, uint64_t& out, JsonFaults& faults);

template <std::integral T>
void ReadJson(const Json& in, T& out, JsonFaults& faults) {
  const auto whole =
      ReadWhole(in, int64_t{std::numeric_limits<T>::min()}, int64_t{std::numeric_limits<T>::max()}, faults);
  if (whole) out = static_cast<T>(*whole);
}

template <class E>
  requires std::is_enum_v<E>
void ReadJson(const Json& in, E& out, JsonFaults& faults) {
  std::vector<std::string_view> words;
  for (const E e : kEnumerators<E>) {
    if (in.is_string() && Name(e) == in.get_ref<const std::string&>()) {
      out = e;
      return;
    }
    words.push_back(Name(e));
  }
  faults.Unknown("word", in, words);
}

template <class T>
void ReadJson(const Json& in, std::vector<T>& out, JsonFaults& faults);
template <class T>
void ReadJson(const Json& in, std::map<std::string, T>& out, JsonFaults& faults);
template <class T>
void ReadJson(const Json& in, std::optional<T>& out, JsonFaults& faults);

template <class T>
class ObjectReader {
 public:
  ObjectReader(const Json& in, T& out, JsonFaults& faults, std::vector<std::string_view>& known)
      : in_(&in), out_(&out), faults_(&faults), known_(&known) {}

  template <class M>
  void Required(std::string_view key, M T::* member) {
    if (!Read(key, member)) faults_->Add("\"" + std::string(key) + "\" is required");
  }
  template <class M>
  void Optional(std::string_view key, M T::* member) {
    Read(key, member);
  }
  // May be left out, is never left out when written: what its absence means is not the field's default.
  template <class M>
  void Always(std::string_view key, M T::* member) {
    Read(key, member);
  }
  // The member's fields stand among this object's own.
  template <class M>
  void NotWritten(M T::*) {}

  template <class M>
  void Inline(M T::* member) {
    ObjectReader<M> inner(*in_, out_->*member, *faults_, *known_);
    Fields(inner, static_cast<const M*>(nullptr));
  }

 private:
  template <class M>
  bool Read(std::string_view key, M T::* member) {
    known_->push_back(key);
    const auto at = in_->find(std::string(key));
    if (at == in_->end()) return false;
    faults_->Enter(key);
    ReadJson(*at, out_->*member, *faults_);
    faults_->Leave();
    return true;
  }

  const Json* in_;
  T* out_;
  JsonFaults* faults_;
  std::vector<std::string_view>* known_;
};

void ReportUnknownKeys(const Json& in, const std::vector<std::string_view>& known, JsonFaults& faults);

template <class T>
concept HasFields = std::is_class_v<T> &&
                    requires(ObjectReader<T>& reader) { Fields(reader, static_cast<const T*>(nullptr)); };

template <HasFields T>
void ReadJson(const Json& in, T& out, JsonFaults& faults) {
  if (!in.is_object()) {
    faults.Expected("an object", in);
    return;
  }
  std::vector<std::string_view> known;
  ObjectReader<T> reader(in, out, faults, known);
  Fields(reader, static_cast<const T*>(nullptr));
  ReportUnknownKeys(in, known, faults);
}

template <class T>
void ReadJson(const Json& in, std::vector<T>& out, JsonFaults& faults) {
  if (!in.is_array()) {
    faults.Expected("a list", in);
    return;
  }
  out.clear();
  out.reserve(in.size());
  for (const Json& item : in) {
    faults.Enter(out.size());
    ReadJson(item, out.emplace_back(), faults);
    faults.Leave();
  }
}

template <class T>
void ReadJson(const Json& in, std::map<std::string, T>& out, JsonFaults& faults) {
  if (!in.is_object()) {
    faults.Expected("an object", in);
    return;
  }
  out.clear();
  for (const auto& [key, item] : in.items()) {
    faults.Enter(std::string_view(key));
    ReadJson(item, out[key], faults);
    faults.Leave();
  }
}

template <class T>
void ReadJson(const Json& in, std::optional<T>& out, JsonFaults& faults) {
  ReadJson(in, out.emplace(), faults);
}

}  // namespace scheduler::io
