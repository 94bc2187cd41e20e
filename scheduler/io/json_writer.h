// Writes structs as JSON text, field by field (json_reader.h has the other way and the form of `Fields`).
//
// What has its default is left out, so that what is written reads back as the same struct and a line stays
// short. Equal structs give equal bytes: fields stand in the order of their list, maps in the order of keys,
// numbers in their shortest exact form. Numbers must be finite.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace scheduler::io {

class JsonWriter {
 public:
  enum class Layout : uint8_t {
    kOneLine,
    kItemPerLine,  // of the lists in the outermost object, so that two files can be compared line by line
  };

  // Appends to `out`, which must outlive it.
  explicit JsonWriter(std::string& out, Layout layout = Layout::kOneLine) : out_(&out), layout_(layout) {}

  void Text(std::string_view text);
  void Number(int64_t number);
  void Number(uint64_t number);
  void Number(double number);
  void Bool(bool value);

  void Begin(char bracket);        // '{' or '['
  void End(char bracket);          // '}' or ']'
  void Key(std::string_view key);  // and what follows it
  void Item();                     // before each item of a list

  // Marks a place to which the text can be cut back, for a field that turns out to hold nothing.
  struct Mark {
    size_t size;
    bool first;
  };
  Mark mark() const { return {out_->size(), first_}; }
  void Rollback(Mark mark) {
    out_->resize(mark.size);
    first_ = mark.first;
  }
  size_t size() const { return out_->size(); }

 private:
  bool breaks() const { return layout_ == Layout::kItemPerLine && depth_ <= 2; }

  std::string* out_;
  Layout layout_;
  bool first_ = true;  // nothing stands in the innermost bracket yet
  int depth_ = 0;
};

inline void WriteJson(JsonWriter& writer, std::string_view in) {
  writer.Text(in);
}
inline void WriteJson(JsonWriter& writer, const std::string& in) {
  writer.Text(in);
}
inline void WriteJson(JsonWriter& writer, bool in) {
  writer.Bool(in);
}
inline void WriteJson(JsonWriter& writer, double in) {
  writer.Number(in);
}
template <std::signed_integral T>
void WriteJson(JsonWriter& writer, T in) {
  writer.Number(int64_t{in});
}
template <std::unsigned_integral T>
void WriteJson(JsonWriter& writer, T in) {
  writer.Number(uint64_t{in});
}
void WriteJson(JsonWriter& writer, conf::Duration in);
void WriteJson(JsonWriter& writer, conf::TimePoint in);  // RFC 3339, to the nanosecond

template <class E>
  requires std::is_enum_v<E>
void WriteJson(JsonWriter& writer, E in) {
  writer.Text(Name(in));
}

template <class T>
void WriteJson(JsonWriter& writer, const std::vector<T>& in);
template <class T>
void WriteJson(JsonWriter& writer, const std::map<std::string, T>& in);
template <class T>
void WriteJson(JsonWriter& writer, const std::optional<T>& in);

// Counts what a Fields lists. Beside the writer, where argument-dependent lookup finds every Fields.
struct FieldCounter {
  size_t fields = 0;
  template <class Member>
  constexpr void Required(std::string_view, Member) {
    ++fields;
  }
  template <class Member>
  constexpr void Optional(std::string_view, Member) {
    ++fields;
  }
  template <class Member>
  constexpr void Always(std::string_view, Member) {
    ++fields;
  }
  template <class Member>
  constexpr void NotWritten(Member) {
    ++fields;
  }
  template <class Member>
  constexpr void Inline(Member) {
    ++fields;
  }
};
namespace internal {

// How many members an aggregate has, and how many of them its Fields lists.
struct AnyMember {
  template <class M>
  operator M() const;
};
template <class T, class... Members>
consteval size_t CountMembers() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; }) {
    return CountMembers<T, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

template <class T>
consteval size_t CountFields() {
  FieldCounter counter;
  Fields(counter, static_cast<const T*>(nullptr));
  return counter.fields;
}

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsList<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

}  // namespace internal

template <class T>
class ObjectWriter {
 public:
  ObjectWriter(JsonWriter& writer, const T& in) : writer_(&writer), in_(&in) {}

  template <class M>
  void Required(std::string_view key, M T::* member) {
    writer_->Key(key);
    WriteJson(*writer_, in_->*member);
  }

  template <class M>
  void Always(std::string_view key, M T::* member) {
    Required(key, member);
  }

  template <class M>
  void Optional(std::string_view key, M T::* member) {
    const M& value = in_->*member;
    if constexpr (internal::kIsList<M>) {
      if (!value.empty()) Required(key, member);
    } else if constexpr (internal::kIsOptional<M>) {
      if (value) Required(key, member);
    } else if constexpr (std::equality_comparable<M>) {
      static const T defaults{};
      if (!(value == defaults.*member)) Required(key, member);
    } else {
      const JsonWriter::Mark before = writer_->mark();
      writer_->Key(key);
      const size_t key_end = writer_->size();
      WriteJson(*writer_, value);
      if (writer_->size() == key_end + std::string_view("{}").size()) writer_->Rollback(before);
    }
  }

  template <class M>
  void NotWritten(M T::*) {}

  template <class M>
  void Inline(M T::* member) {
    ObjectWriter<M> inner(*writer_, in_->*member);
    Fields(inner, static_cast<const M*>(nullptr));
  }

 private:
  JsonWriter* writer_;
  const T* in_;
};

template <class T>
  requires std::is_class_v<T> &&
           requires(ObjectWriter<T>& fields) { Fields(fields, static_cast<const T*>(nullptr)); }
void WriteJson(JsonWriter& writer, const T& in) {
  static_assert(internal::CountFields<T>() == internal::CountMembers<T>(),
                "T has a member that Fields does not list");
  writer.Begin('{');
  ObjectWriter<T> fields(writer, in);
  Fields(fields, static_cast<const T*>(nullptr));
  writer.End('}');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::vector<T>& in) {
  writer.Begin('[');
  for (const T& item : in) {
    writer.Item();
    WriteJson(writer, item);
  }
  writer.End(']');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::map<std::string, T>& in) {
  writer.Begin('{');
  for (const auto& [key, item] : in) {
    writer.Key(key);
    WriteJson(writer, item);
  }
  writer.End('}');
}

template <class T>
void WriteJson(JsonWriter& writer, const std::optional<T>& in) {
  WriteJson(writer, *in);
}

}  // namespace scheduler::io
