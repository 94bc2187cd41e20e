// What the answers of several calls share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conf/fields.h"
#include "conf/json_fields.h"
#include "conf/time.h"

namespace gateway::admin::answers {

using Time = conf::ShownTime;

inline std::optional<Time> TimeOrNull(std::optional<conf::TimePoint> at) {
  return at ? std::optional(Time{*at}) : std::nullopt;
}

inline std::optional<std::string> TextOrNull(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

inline std::optional<int64_t> MillisOrNull(const std::optional<conf::Duration>& duration) {
  return duration ? std::optional(conf::ToMillis(*duration)) : std::nullopt;
}

// A page of a list.
template <class T>
struct ListOf {
  static inline const std::string kSchema = std::string(T::kSchema) + "List";

  std::string object = "list";
  std::vector<T> data;
  bool has_more = false;
  std::optional<std::string> next;  // what the next page begins after
};

template <class O, class T>
constexpr void Bind(O& o, ListOf<T>& list) {
  o.Required("object", list.object);
  o.Required("data", list.data);
  o.Required("has_more", list.has_more);
  o.Optional("next", list.next);
}

}  // namespace gateway::admin::answers
