// Writes structs as JSON by the fields that they list (fields.h); json_reader.h has the other way.
//
// Members with their default are left out, so that the text reads back as the same struct and a line stays
// short. Fields stand in the order of their list, maps in the order of keys.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/json_writer.h"
#include "conf/time.h"

namespace conf {

// JSON as text: written unchanged.
struct RawJson {
  std::string text;
};

// A moment as people are shown it: always with microseconds, as FormatTime writes it.
struct ShownTime {
  TimePoint at;
};

inline void WriteJson(JsonWriter& writer, const RawJson& in) {
  writer.Raw(in.text);
}
inline void WriteJson(JsonWriter& writer, std::string_view in) {
  writer.String(in);
}
inline void WriteJson(JsonWriter& writer, const std::string& in) {
  writer.String(in);
}
inline void WriteJson(JsonWriter& writer, bool in) {
  writer.Bool(in);
}
inline void WriteJson(JsonWriter& writer, double in) {
  writer.Number(in);
}
template <std::integral T>
void WriteJson(JsonWriter& writer, T in) {
  writer.Number(in);
}
void WriteJson(JsonWriter& writer, Duration in);
void WriteJson(JsonWriter& writer, ShownTime in);
void WriteJson(JsonWriter& writer, TimePoint in);  // RFC 3339, to the nanosecond

template <HasWords E>
void WriteJson(JsonWriter& writer, E in) {
  writer.String(WordOf<E>(WordsOf(in), in));
}

template <class T>
void WriteJson(JsonWriter& writer, const std::vector<T>& in);
template <class T>
void WriteJson(JsonWriter& writer, const std::map<std::string, T>& in);
template <class T>
void WriteJson(JsonWriter& writer, const std::optional<T>& in);
template <HasFields T>
void WriteJson(JsonWriter& writer, const T& in);

// The fields of one T while it is written.
template <class T>
class FieldWriter {
 public:
  explicit FieldWriter(JsonWriter& writer) : writer_(&writer) {}

  template <class M>
  void Required(std::string_view key, const M& field) {
    ++at_;
    Write(key, field);
  }
  template <class M>
  void Always(std::string_view key, const M& field) {
    ++at_;
    Write(key, field);
  }
  template <class M>
  void Optional(std::string_view key, const M& field) {
    const size_t at = at_++;
    if constexpr (internal::kIsVector<M> || internal::kIsMap<M>) {
      if (!field.empty()) Write(key, field);
    } else if constexpr (internal::kIsOptional<M>) {
      if (field) Write(key, field);
    } else if constexpr (std::equality_comparable<M>) {
      if (!(field == *static_cast<const M*>(internal::Defaults<T>()[at]))) Write(key, field);
    } else {
      const size_t before = writer_->size();
      writer_->Key(key);
      const size_t key_end = writer_->size();
      WriteJson(*writer_, field);
      if (writer_->size() == key_end + std::string_view("{}").size()) writer_->TruncateTo(before);
    }
  }
  template <class M>
  void Inline(M& field) {
    ++at_;
    FieldWriter<M> inner(*writer_);
    Bind(inner, field);
  }
  template <class M>
  void NotWritten(const M&) {
    ++at_;
  }

 private:
  template <class M>
  void Write(std::string_view key, const M& field) {
    writer_->Key(key);
    WriteJson(*writer_, field);
  }

  JsonWriter* writer_;
  size_t at_ = 0;
};

template <HasFields T>
void WriteJson(JsonWriter& writer, const T& in) {
  static_assert(kListsEveryMember<T>, "T has a member that Bind does not list");
  writer.Open('{');
  FieldWriter<T> fields(writer);
  Bind(fields, const_cast<T&>(in));  // a writer only looks
  writer.Close('}');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::vector<T>& in) {
  writer.Open('[');
  for (const T& item : in) {
    writer.Item();
    WriteJson(writer, item);
  }
  writer.Close(']');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::map<std::string, T>& in) {
  writer.Open('{');
  for (const auto& [key, item] : in) {
    writer.Key(key);
    WriteJson(writer, item);
  }
  writer.Close('}');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::optional<T>& in) {
  if (in) {
    WriteJson(writer, *in);
  } else {
    writer.Null();
  }
}

template <class T>
std::string ToJsonText(const T& in) {
  std::string out;
  JsonWriter writer(out);
  WriteJson(writer, in);
  return out;
}

}  // namespace conf
