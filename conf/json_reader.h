// Reads structs from JSON by the fields that they list (fields.h); json_fields.h has the other way.
//
// Every problem is kept with its JSON pointer, and reading continues: unknown and repeated keys, values of
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

#include "conf/fields.h"
#include "conf/time.h"

namespace conf {

using Json = nlohmann::json;

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
void ReadJson(const Json& in, Duration& out, JsonFaults& faults);
void ReadJson(const Json& in, TimePoint& out, JsonFaults& faults);
// Whole numbers between the bounds.
std::optional<int64_t> ReadWhole(const Json& in, int64_t min, int64_t max, JsonFaults& faults);
void ReadJson(const Json& in, uint64_t& out, JsonFaults& faults);

template <std::integral T>
void ReadJson(const Json& in, T& out, JsonFaults& faults) {
  const auto whole =
      ReadWhole(in, int64_t{std::numeric_limits<T>::min()}, int64_t{std::numeric_limits<T>::max()}, faults);
  if (whole) out = static_cast<T>(*whole);
}

template <HasWords E>
void ReadJson(const Json& in, E& out, JsonFaults& faults) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : WordsOf(E{})) {
    if (in.is_string() && word == in.get_ref<const std::string&>()) {
      out = value;
      return;
    }
    words.push_back(word);
  }
  faults.Unknown("word", in, words);
}

template <class T>
void ReadJson(const Json& in, std::vector<T>& out, JsonFaults& faults);
template <class T>
void ReadJson(const Json& in, std::map<std::string, T>& out, JsonFaults& faults);
template <class T>
void ReadJson(const Json& in, std::optional<T>& out, JsonFaults& faults);

template <HasFields T>
void ReadJson(const Json& in, T& out, JsonFaults& faults);

// The fields of one struct while it is read, with those of the structs that stand inline in it.
class FieldReader {
 public:
  FieldReader(const Json& in, JsonFaults& faults) : in_(&in), faults_(&faults) {}

  template <class M>
  void Required(std::string_view key, M& field) {
    if (!Read(key, field)) faults_->Add("\"" + std::string(key) + "\" is required");
  }
  template <class M>
  void Optional(std::string_view key, M& field) {
    Read(key, field);
  }
  template <class M>
  void Always(std::string_view key, M& field) {
    Read(key, field);
  }
  template <class M>
  void Inline(M& field) {
    Bind(*this, field);
  }
  template <class M>
  void NotWritten(const M&) {}

  void ReportUnknownKeys() const;

 private:
  template <class M>
  bool Read(std::string_view key, M& field) {
    known_.push_back(key);
    const auto at = in_->find(std::string(key));
    if (at == in_->end()) return false;
    faults_->Enter(key);
    ReadJson(*at, field, *faults_);
    faults_->Leave();
    return true;
  }

  const Json* in_;
  JsonFaults* faults_;
  std::vector<std::string_view> known_;
};

template <HasFields T>
void ReadJson(const Json& in, T& out, JsonFaults& faults) {
  if (!in.is_object()) {
    faults.Expected("an object", in);
    return;
  }
  FieldReader reader(in, faults);
  Bind(reader, out);
  reader.ReportUnknownKeys();
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

}  // namespace conf
