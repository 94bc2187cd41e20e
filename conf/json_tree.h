// Structs to and from JSON trees by the fields that they list (fields.h): for messages and records of our own,
// whose reader needs no more than that they cannot be read. json_reader.h is for what people write.
//
// An Optional that is empty or false is left out. Moments are microseconds since the epoch, durations nanoseconds. Reading
// throws nlohmann's exceptions at a field that is missing or of another type, and passes over unknown ones.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "conf/fields.h"
#include "conf/time.h"

namespace conf {

class TreeWriter {
 public:
  explicit TreeWriter(nlohmann::json& out) : out_(&out) {}

  void Required(std::string_view key, const auto& field) { (*out_)[std::string(key)] = field; }
  void Required(std::string_view key, Duration field) { Required(key, field.count()); }
  void Required(std::string_view key, TimePoint field) { Required(key, ToUnixMicros(field)); }
  template <class M>
  void Optional(std::string_view key, const std::optional<M>& field) {
    if (field) Required(key, *field);
  }
  void Optional(std::string_view key, bool field) {
    if (field) Required(key, field);
  }
  void NotWritten(const auto&) {}

 private:
  nlohmann::json* out_;
};

class TreeReader {
 public:
  explicit TreeReader(const nlohmann::json& in) : in_(&in) {}

  void Required(std::string_view key, auto& field) { in_->at(std::string(key)).get_to(field); }
  void Required(std::string_view key, Duration& field) {
    field = Duration(in_->at(std::string(key)).get<Duration::rep>());
  }
  void Required(std::string_view key, TimePoint& field) {
    field = FromUnixMicros(in_->at(std::string(key)).get<int64_t>());
  }
  template <class M>
  void Optional(std::string_view key, std::optional<M>& field) {
    if (in_->contains(std::string(key))) Required(key, field.emplace());
  }
  void Optional(std::string_view key, bool& field) { field = in_->value(std::string(key), false); }
  void NotWritten(const auto&) {}

 private:
  const nlohmann::json* in_;
};

template <HasFields T>
nlohmann::json ToTree(const T& in) {
  static_assert(kListsEveryMember<T>, "T has a member that Bind does not list");
  nlohmann::json out = nlohmann::json::object();
  TreeWriter writer(out);
  Bind(writer, const_cast<T&>(in));  // a writer only looks
  return out;
}

template <HasFields T>
void FromTree(const nlohmann::json& in, T& out) {
  TreeReader reader(in);
  Bind(reader, out);
}

}  // namespace conf
